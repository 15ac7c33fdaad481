"""Who works on a call: a worker asks, Postgres grants with a fence or says why not.

States of a claim: open (nobody has it) -> claimed (one worker has it) -> ended. A
holder that dies leaves it open again, or stranded on its host when an effect was
announced there; only that host's next incarnation is granted a stranded call.
withdrawn: the run was stopped before anybody claimed it; lost: its host was given
up, and only its run's own row can end it. Every grant and every
taking away raises the fence, and a row under an old fence is refused.
Source: design of the farm, "The life of a call"; rules of the protocol 21, 22, 29.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from shared.base.canonical import from_storable
from shared.base.errors import RightLost
from shared.journal.database import Database, retrying
from shared.journal.members import Claim, RunLease
from shared.journal.meta import WRITER
from shared.journal.queries import claiming
from shared.journal.queries.writing import CLAIM

_FIELDS = (
    "run_id", "node_id", "kind", "effect", "path", "position", "attempt", "fence", "sent", "sent_host", "crashes",
    "deadline_seconds", "rows_written", "role", "label", "stop",
)  # fmt: skip


@dataclass(frozen=True)
class Denied:
    """No grant: drop the message.

    Shape: `reason` is held, ended, withdrawn, other_host, placed_elsewhere, stopping,
    dead, labels, unknown, version, draining or disk. `dead`: this incarnation was
    declared dead and has to stop everything.
    """

    reason: str


@dataclass(frozen=True)
class Freed:
    """A claim that was taken from its holder. `sent`: stranded on `sent_host`, else open again."""

    call_id: str
    run_id: str
    node_id: str | None
    request_id: str
    sent: bool
    sent_host: str | None
    crashes: int


@dataclass(frozen=True)
class Ask:
    """A call that a worker asks for. `grant_id` is of the worker's choice and names this one try to get it."""

    call_id: str
    request_id: str
    grant_id: str


def claim(database: Database, worker_id: str, call_id: str, request_id: str, grant_id: str) -> Claim | Denied:
    """Ask for one call; as `claim_many`."""
    [answer] = claim_many(database, worker_id, [Ask(call_id, request_id, grant_id)])
    return answer


def claim_many(database: Database, worker_id: str, asks: Sequence[Ask]) -> list[Claim | Denied]:
    """Ask for calls in one transaction; the answers in the order of the asks.

    The same `grant_id` asked again gets the same fence, so a lost answer is asked again.

    Raises:
        StoreUnavailable: Postgres is away; what was granted is not known: ask again or let the heartbeat see it.
    """
    parameters = claim_parameters(worker_id, asks)
    rows = retrying(lambda: database.fetch(CLAIM, parameters))
    return [_answer(ask, row) for ask, row in zip(asks, rows, strict=True)]


def claim_parameters(worker_id: str, asks: Sequence[Ask]) -> dict[str, Any]:
    """The parameters of the claim's statement."""
    return {
        "worker": worker_id, "writer": WRITER, "calls": [ask.call_id for ask in asks],
        "requests": [ask.request_id for ask in asks], "grants": [ask.grant_id for ask in asks],
    }  # fmt: skip


def _answer(ask: Ask, row: tuple[Any, ...]) -> Claim | Denied:
    denied, *granted, detail, prepared_at = row
    if denied is not None:
        return Denied(denied)
    return Claim(
        call_id=ask.call_id, request_id=ask.request_id, grant_id=ask.grant_id,
        prepared={} if detail is None else from_storable(detail), prepared_at=prepared_at,
        **dict(zip(_FIELDS, granted, strict=True)),
    )  # fmt: skip


def claimable(database: Database, worker_id: str, limit: int) -> list[tuple[str, str]]:
    """`(call id, request id)` of calls this worker could be granted, its host's stranded ones first."""

    def read() -> list[tuple[str, str]]:
        with database.statement() as connection:
            rows = connection.execute(claiming.claimable(), {"worker": worker_id, "limit": limit})
            return [(row.call_id, row.request_id) for row in rows]

    return retrying(read)


def release(database: Database, held: Claim) -> bool:
    """Give a call back that nothing was sent for; it is open at once, and no crash is counted.

    Returns:
        Whether it went back now; False also where an earlier try did it and its answer was lost.
    """
    return release_grant(database, held.call_id, held.fence, held.grant_id)


def release_grant(database: Database, call_id: str, fence: int, grant_id: str) -> bool:
    """`release` for a claim that only the heartbeat's list names: the answer to its grant was lost."""

    def give() -> bool:
        with database.transaction() as connection:
            right = {"call": call_id, "fence": fence, "grant": grant_id}
            if connection.execute(claiming.claim_to_release(), right).first() is None:
                return False
            free(connection, [call_id], crashes=0)
            return True

    return retrying(give)


def strand_grant(database: Database, call_id: str, fence: int, grant_id: str) -> bool:
    """Let go of a claim that had sent something and that nobody here works on any more.

    Its host looks up what came of it, this very worker perhaps; no crash is counted.
    """

    def give() -> bool:
        with database.transaction() as connection:
            right = {"call": call_id, "fence": fence, "grant": grant_id}
            if connection.execute(claiming.claim_to_strand(), right).first() is None:
                return False
            return bool(free(connection, [call_id], crashes=0))

    return retrying(give)


def free_overdue(database: Database, grace_seconds: float) -> list[Freed]:
    """Take away the claims that are over their deadline by more than `grace_seconds`: their holder hangs."""

    def take() -> list[Freed]:
        with database.transaction() as connection:
            calls = connection.execute(claiming.claims_overdue(), {"grace": grace_seconds}).scalars().all()
            return free(connection, calls, crashes=1)

    return retrying(take)


def stop_calls(database: Database, lease: RunLease, calls: Sequence[str], why: str) -> dict[str, str]:
    """Tell the holders of these calls to end them, now or when they are granted one.

    Returns:
        The state that each call's claim has; an `open` one is told nothing, since nobody has it.

    Raises:
        RightLost: the run is not this scheduler's any more; nobody was told anything.
    """

    def tell() -> dict[str, str]:
        with database.transaction() as connection:
            names = {"calls": sorted(calls), "run": lease.run_id}
            found = connection.execute(claiming.claims_to_stop(), names).all()
            right = {"run": lease.run_id, "scheduler": lease.scheduler_id, "epoch": lease.epoch}
            if connection.execute(claiming.run_of_lease(), right).first() is None:
                raise RightLost(f"run {lease.run_id}: the right to stop its calls is gone", run=lease.run_id)
            connection.execute(claiming.stop_claims(), {**names, "why": why})
            return {row.call_id: row.state for row in found}

    return retrying(tell)


def told_to_stop(database: Database, calls: Sequence[str]) -> list[tuple[str, str]]:
    """`(call id, why)` of those among these calls whose run told their holder to end them."""

    def look() -> list[tuple[str, str]]:
        with database.statement() as connection:
            return [tuple(row) for row in connection.execute(claiming.stopped_claims(), {"calls": list(calls)})]

    return retrying(look) if calls else []


def give_up(database: Database, run_id: str) -> list[str]:
    """Take the calls of a cancelled run from hosts that are silent; what had sent nothing is open again.

    Returns:
        The calls that are lost: the run ends them with its own row, nobody else can. An earlier try whose
        answer was lost took its calls too, so they are read, not counted off.
    """

    def take() -> list[str]:
        with database.transaction() as connection:
            silent = connection.execute(claiming.silent_holders(), {"run": run_id}).scalars().all()
            found = connection.execute(claiming.claims_out_of_reach(), {"run": run_id, "silent": list(silent)}).all()
            free(connection, [row.call_id for row in found if not row.sent], crashes=0)
            sent = [row.call_id for row in found if row.sent]
            if sent:
                connection.execute(claiming.lose_claims(), {"calls": sent})
            return list(connection.execute(claiming.lost_claims(), {"run": run_id}).scalars())

    return retrying(take)


def free(connection: Connection, calls: Sequence[str], *, crashes: int) -> list[Freed]:
    """Take locked claims from their holder, drop their unused placements, publish them again. The callers lock."""
    if not calls:
        return []
    rows = connection.execute(claiming.free_claims(), {"calls": list(calls), "crashes": crashes}).all()
    freed = [Freed(**row._mapping) for row in rows]
    names = {"calls": [item.call_id for item in freed]}
    connection.execute(claiming.unplace(), names)
    connection.execute(claiming.announce(), names)
    return freed


@dataclass(frozen=True)
class OpenCallState:
    """A call of a run that has not ended. `host` is where it is, or which host it waits for (None: any)."""

    call_id: str
    path: str
    position: int
    kind: str
    role: str | None
    label: str | None
    node_id: str | None
    state: str
    host: str | None
    worker_id: str | None
    sent: bool
    crashes: int
    attempt: int
    fence: int
    opened_at: Any
    claimed_at: Any
    request_id: str = ""


@contextmanager
def held_still(database: Database, run_id: str) -> Iterator[list[OpenCallState]]:
    """The calls of a run that have not ended; none of those at work can end while the block runs. Keep it short.

    Raises:
        StoreUnavailable: the database went away, before the block or at its end.
    """
    with database.transaction() as connection:
        # Who appends to one of them waits here for its claim, the first lock of every append.
        connection.execute(claiming.claims_at_work(), {"run": run_id})
        yield [OpenCallState(**row._mapping) for row in connection.execute(claiming.open_calls(), {"run": run_id})]


def open_calls(database: Database, run_id: str) -> list[OpenCallState]:
    """The calls of a run that have not ended, in the order of paths and positions."""

    def read() -> list[OpenCallState]:
        with database.statement() as connection:
            return [OpenCallState(**row._mapping) for row in connection.execute(claiming.open_calls(), {"run": run_id})]

    return retrying(read)


def announce(connection: Connection, calls: Sequence[str]) -> None:
    """Make waiting calls due for publishing now."""
    connection.execute(claiming.announce(), {"calls": list(calls)})
