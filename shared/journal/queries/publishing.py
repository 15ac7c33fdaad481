"""Statements that take calls out of the outbox to be published."""

from __future__ import annotations

from sqlalchemy import TextClause, text

from shared.journal.queries.claiming import QUEUE

_TAKEN = f"""
        select t.call_id, t.request_id, t.tries, {QUEUE} as queue, c.run_id, c.kind, c.role, c.node_id, c.label
        from taken t join call_claims c on c.call_id = t.call_id join flow_runs r on r.run_id = c.run_id
          left join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
        where c.state in ('open', 'stranded')"""


# Locks: outbox rows (SKIP LOCKED: two publishers take disjoint rows and none waits). Commit, then send: the row stays
# and comes due again after 30 s, 60 s, ... 15 min until somebody claims the call.
def take_due() -> TextClause:
    """Outbox rows whose time has come, with the queue each call belongs to now."""
    return text(f"""
        with due as (
          select o.call_id from outbox o where o.not_before <= clock_timestamp()
          order by o.not_before limit :limit for update skip locked
        ), taken as (
          update outbox o set tries = o.tries + 1,
            not_before = clock_timestamp() + least(interval '15 min', interval '30 s' * power(2, least(o.tries, 8)))
          from due where o.call_id = due.call_id returning o.call_id, o.request_id, o.tries
        )
        {_TAKEN} order by t.call_id""")


# Locks: outbox rows, as above. How many of a run are published is counted without a lock: two publishers at the same
# moment may go over the share once, which costs nobody more than some messages more.
def take_held() -> TextClause:
    """Held back calls for which their run's share has room: the first of each run, then the second of each, ..."""
    return text(f"""
        with held as (
          select distinct o.run_id from outbox o where o.not_before = 'infinity'
        ), room as (
          select h.run_id, :at_once - (select count(*) from outbox s
            where s.run_id = h.run_id and s.not_before < 'infinity') as calls
          from held h
        ), turns as (
          select w.call_id, row_number() over (partition by room.run_id) as turn
          from room cross join lateral (
            select o.call_id from outbox o where o.run_id = room.run_id and o.not_before = 'infinity'
            limit greatest(room.calls, 0) for update skip locked) w
        ), now as (
          select call_id, turn from turns order by turn limit :limit
        ), taken as (
          update outbox o set tries = o.tries + 1, not_before = clock_timestamp() + interval '30 s'
          from now where o.call_id = now.call_id returning o.call_id, o.request_id, o.tries, now.turn
        )
        {_TAKEN} order by t.turn, c.run_id""")


# Locks nothing.
ANY_HELD = "select exists (select 1 from outbox where not_before = 'infinity')"
