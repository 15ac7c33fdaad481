"""Which history of the database this is, and how a person accepts another one.

A backup that was restored, or a standby that was promoted without its last rows, gives
fences, epochs and numbers out again that somebody outside still holds. `farm_meta` keeps
the server's identifier and timeline; a process that meets others starts nothing.
Accepting raises every fence and epoch beyond all that can have been given out.
Source: rules of the protocol, 18.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from shared.base.errors import HistoryChanged, StoreUnavailable
from shared.base.log import mask_url
from shared.journal.queries import claiming

LEAP = 1_000_000
_NOW = "select s.system_identifier::text, c.timeline_id from pg_control_system() s, pg_control_checkpoint() c"


@dataclass(frozen=True)
class Accepted:
    """What accepting did. Shape: `runs` free to be taken; `stranded` calls that wait for their host; `opened` again."""

    runs: int
    stranded: int
    opened: int


def check_history(cursor: Any) -> None:
    """Refuse a server whose identity is not the one on record.

    Raises:
        HistoryChanged: as said.
    """
    cursor.execute(f"select m.system_id, m.timeline, n.* from farm_meta m, ({_NOW}) n")
    system, timeline, found_system, found_timeline = cursor.fetchone()
    if (system, timeline) != (found_system, found_timeline):
        raise HistoryChanged(
            f"the journal was written on server {system}, timeline {timeline}, and this is server {found_system}, "
            f"timeline {found_timeline}: a restored or promoted database; see that nobody writes to the old one, then "
            "run `crw db accept-history`"
        )


def accept_history(owner_url: str) -> Accepted:
    """Take this server's history for the journal's own. Run as the schema's owner.

    Every worker and scheduler counts as dead, sent calls are stranded on their hosts for reconcile, and no
    row under an earlier fence or epoch is taken any more. Nothing happens where the history is the known one.

    Raises:
        StoreUnavailable: Postgres cannot be reached.
    """
    engine = create_engine(
        make_url(owner_url).set(drivername="postgresql+psycopg2"), connect_args={"connect_timeout": 5}
    )
    try:
        with engine.begin() as connection:
            known = connection.execute(text("select system_id, timeline from farm_meta for update")).one()
            now = connection.execute(text(_NOW)).one()
            if tuple(known) == tuple(now):
                return Accepted(0, 0, 0)
            for table in ("farm_workers", "farm_schedulers"):
                connection.execute(text(f"update {table} set state = 'dead' where state in ('up', 'draining')"))
            held = connection.execute(
                text("select call_id from call_claims where state = 'claimed' order by call_id for no key update")
            ).scalars()
            freed = connection.execute(claiming.free_claims(), {"calls": list(held), "crashes": 0}).all()
            connection.execute(claiming.announce(), {"calls": [call.call_id for call in freed]})
            connection.execute(text("update call_claims set fence = fence + :leap"), {"leap": LEAP})
            runs = connection.execute(
                text("update flow_runs set state = 'queued', scheduler_id = null where state = 'running' returning 1")
            ).all()
            connection.execute(text("update flow_runs set lease_epoch = lease_epoch + :leap"), {"leap": LEAP})
            connection.execute(
                text("update farm_meta set system_id = :system, timeline = :timeline"),
                {"system": now[0], "timeline": now[1]},
            )
            stranded = sum(call.sent for call in freed)
            return Accepted(len(runs), stranded, len(freed) - stranded)
    except DBAPIError as error:
        said = str(error.orig).strip().splitlines()[0]
        raise StoreUnavailable(f"the history cannot be accepted at {mask_url(owner_url)} ({said})") from None
    finally:
        engine.dispose()
