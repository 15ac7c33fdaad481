"""What agents do right now: hints for `watch`, overwritten in place, gone after a crash of the database.

Nothing is decided from them. Rows of an older fence never overwrite a newer one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text

from shared.journal.database import Database


@dataclass(frozen=True)
class Progress:
    """One call's newest sign of life.

    Shape: `turn` the turn's id, `message` the agent's last message, `command` the one that runs, `tokens` of
    the call so far, `seconds` since the turn began.
    """

    call_id: str
    fence: int
    turn: str | None = None
    message: str | None = None
    command: str | None = None
    tokens: int | None = None
    seconds: float | None = None


# Locks: the progress rows, by call id; nobody else waits for them.
_PUT = text("""
    insert into call_progress as g (call_id, run_id, fence, turn, message, command, tokens, seconds)
    select c.call_id, c.run_id, :fence, :turn, :message, :command, :tokens, :seconds
    from call_claims c where c.call_id = :call_id
    on conflict (call_id) do update set fence = excluded.fence, turn = excluded.turn, message = excluded.message,
      command = excluded.command, tokens = excluded.tokens, seconds = excluded.seconds, seen_at = clock_timestamp()
    where g.fence <= excluded.fence""")
# Locks nothing.
_LOAD = text("""
    select g.call_id, g.fence, g.turn, g.message, g.command, g.tokens, g.seconds
    from call_progress g join call_claims c on c.call_id = g.call_id and c.state = 'claimed' and c.fence = g.fence
    where g.run_id = :run order by g.call_id""")


def put(database: Database, seen: Sequence[Progress]) -> None:
    """Store hints; one try, an error of the database passes to the caller."""
    if not seen:
        return
    with database.transaction() as connection:
        for progress in sorted(seen, key=lambda one: one.call_id):
            values = asdict(progress)
            for name in ("turn", "message", "command"):
                # A hint is not worth an error: what a text column cannot hold is replaced.
                if values[name] is not None:
                    values[name] = values[name].replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
            connection.execute(_PUT, values)


def load(database: Database, run_id: str) -> list[Progress]:
    """The hints of a run's calls that a worker has now."""
    with database.statement() as connection:
        return [Progress(**row._mapping) for row in connection.execute(_LOAD, {"run": run_id})]
