"""The ops every worker can run."""

from __future__ import annotations

from shared.journal import artifacts
from shared.journal.database import Database
from workers.ops.commit import Commit
from workers.ops.integrate import Integrate
from workers.ops.op import register
from workers.ops.verify import Verify


def register_builtin(database: Database) -> None:
    """Let this worker run commit, verify and integrate; logs are kept in the journal's artifacts."""
    register(Commit())
    register(Verify(lambda log: artifacts.put(database, log, "text/plain")))
    register(Integrate())
