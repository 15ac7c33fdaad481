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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.base.canonical import from_storable
from shared.journal.database import Database, retrying
from shared.journal.freeing import free
from shared.journal.members import Claim
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
