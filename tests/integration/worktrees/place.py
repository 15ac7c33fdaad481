"""A hub, a host's state directory and rows of one run, for the tests of directories and ops."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from shared.base.ids import call_id, request_id
from shared.hub.git import Git
from shared.hub.refs import read_ref
from shared.model.rows import CallRow, NewCallRow
from shared.model.spec import RunSpec
from tests.repositories import git, make_bare_hub
from workers.worktrees.keep import Keeping
from workers.worktrees.mirror import Mirrors

RUN = "rabcdefghijkl"
AT = datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=UTC)


class Place:
    """One host of a farm with one run; `rows` grows as the test writes them."""

    def __init__(
        self, root: Path, hub: Path | None = None, files: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.hub = hub or make_bare_hub(root / "hub.git", files)
        self.base = git(self.hub, "rev-parse", "main")
        self.state_dir = root / "state"
        self.git = Git(60)
        self.mirrors = Mirrors(self.state_dir, self.git)
        self.spec = RunSpec("flow.py", "flow.py", {}, {}, str(self.hub), self.base, "", {}, **spec)
        self.rows: list[CallRow] = []
        self.intents: list[NewCallRow] = []
        self.keeping = Keeping(self.intents.append, lambda: False, 30)

    @property
    def mirror(self) -> Path:
        return self.mirrors.path_of(str(self.hub))

    def on_hub(self, ref: str) -> str | None:
        return read_ref(self.git, str(self.hub), ref)

    def row(self, position: int, event: str, kind: str = "agent", node: str | None = "n", **columns: Any) -> CallRow:
        """A stored row of the call at a position, appended to `rows`."""
        call = call_id(RUN, "main", position)
        empty: dict[str, Any] = dict.fromkeys(CallRow.__struct_fields__)
        known: dict[str, Any] = {
            "run_id": RUN,
            "seq": len(self.rows) + 1,
            "call_id": call,
            "path": "main",
            "position": position,
            "attempt": 0,
            "kind": kind,
            "event": event,
            "request_id": request_id(RUN, call),
            "node_id": node,
            "written_at": AT,
            "detail": {},
        }
        row = CallRow(**{**empty, **known, **columns})
        self.rows.append(row)
        return row

    def store(self, position: int, new: NewCallRow, kind: str = "agent", node: str | None = "n") -> CallRow:
        """A new row as the journal would hand it back."""
        columns = {name: getattr(new, name) for name in NewCallRow.__dataclass_fields__ if name != "event"}
        return self.row(position, new.event, kind, node, **columns)


def later(row: CallRow, **changes: Any) -> CallRow:
    """The row with other values."""
    return replace(row, **changes)
