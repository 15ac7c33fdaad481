"""Stop calls that are at work: tell their holders, or give up those whose holder is silent.

Source: design of the farm, "The life of a call"; rules of the protocol 21, 22, 29.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.base.errors import RightLost
from shared.journal.database import Database, retrying
from shared.journal.freeing import free
from shared.journal.members import RunLease
from shared.journal.queries import claiming


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
