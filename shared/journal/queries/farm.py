"""Statements about hosts, workers and schedulers."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks: the host's row first, as every transaction that changes who works on a host.
def host_to_register() -> TextClause:
    """Lock a host's row; makes it when the name is new. The name of a lost host is free for another directory."""
    return text("""
        insert into farm_hosts as h (host, host_id, home_id, machine, account, labels)
        values (:host, :host_id, :home_id, :machine, :account, :labels)
        on conflict (host) do update set
          host_id = case when h.host_id = excluded.host_id or h.state = 'lost' then excluded.host_id else h.host_id end,
          home_id = case when h.host_id = excluded.host_id or h.state = 'lost' then excluded.home_id else h.home_id end,
          machine = case when h.host_id = excluded.host_id or h.state = 'lost' then excluded.machine else h.machine end,
          account = case when h.host_id = excluded.host_id or h.state = 'lost' then excluded.account else h.account end,
          labels = case when h.host_id = excluded.host_id or h.state = 'lost' then excluded.labels else h.labels end
        returning host, host_id, state""")


# Locks nothing: two hosts that register the same login at the same moment both pass; the second start is refused.
def same_account() -> TextClause:
    """Another host, not lost, with this login."""
    return text("select host from farm_hosts where account = :account and host <> :host and state <> 'lost' limit 1")


# Locks: the host's live worker. FOR UPDATE waits for its claims in flight (FOR SHARE).
def live_workers_of_host() -> TextClause:
    """Lock the live workers of a host."""
    return text("""
        select worker_id, machine, pid, lease_until > clock_timestamp() as beating from farm_workers
        where host = :host and state in ('up', 'draining') order by worker_id for update""")


# Locks: nothing new. Also the stopped and dead of the past may still have claims; freeing is level triggered.
def workers_of_host() -> TextClause:
    """The host's workers that have claimed calls."""
    return text("""
        select distinct w.worker_id from farm_workers w join call_claims c
          on c.worker_id = w.worker_id and c.state = 'claimed' where w.host = :host""")


# Locks: the worker's row.
def end_workers() -> TextClause:
    """Mark live workers dead or stopped."""
    return text("""
        update farm_workers set state = :state where worker_id = any(:workers) and state in ('up', 'draining')
        returning worker_id""")


# Locks: the new row; `one_live_worker_a_host` refuses a second live one.
def new_worker() -> TextClause:
    """Insert the new incarnation with a fresh lease."""
    return text("""
        insert into farm_workers (worker_id, host, state, lease_until, lease_seconds, pid, pid_started, boot_id,
          home_id, machine, labels, slots, version, codex_version, min_free_bytes)
        values (:worker_id, :host, 'up', clock_timestamp() + :lease_seconds * interval '1 s', :lease_seconds, :pid,
          :pid_started, :boot_id, :home_id, :machine, :labels, :slots, :version, :codex_version, :min_free_bytes)""")


# Locks: the worker's row. No row: it was declared dead. psycopg2's own form: beats have their own connection.
BEAT = """
update farm_workers set beat = beat + 1, lease_until = clock_timestamp() + lease_seconds * interval '1 s',
  free_bytes = %(free)s,
  looked_at = coalesce(clock_timestamp() - cast(%(look_age)s as float8) * interval '1 s', looked_at),
  state = case when (select h.state from farm_hosts h where h.host = farm_workers.host) = 'draining' then 'draining'
    else %(state)s end
where worker_id = %(worker)s and state in ('up', 'draining') returning beat, state, lease_until, lease_seconds
"""

# Locks nothing.
HELD_BY = "select call_id, fence, grant_id from call_claims where worker_id = %(worker)s and state = 'claimed'"

# Locks: the scheduler's row. No row: it was declared dead.
BEAT_SCHEDULER = """
update farm_schedulers set beat = beat + 1, lease_until = clock_timestamp() + lease_seconds * interval '1 s'
where scheduler_id = %(scheduler)s and state in ('up', 'draining') returning beat, state, lease_until, lease_seconds
"""


# Locks: the suspects, FOR KEY SHARE, which keeps no beat and no claim waiting. It makes the look fail on a database
# that takes no writes: nobody can beat there either, and a look that succeeded would be evidence against everybody.
def suspects() -> TextClause:
    """Live workers whose lease ran out: a suspicion; the sweep has to see the same beat twice."""
    return text("""
        select worker_id, beat, lease_seconds from farm_workers
        where state in ('up', 'draining') and lease_until < clock_timestamp() order by worker_id
        for key share skip locked""")


# Locks: the worker's row, SKIP LOCKED: a frozen client that holds it stops nobody; right and beat in the WHERE.
def worker_to_bury() -> TextClause:
    """Lock a worker that is still silent since the beat that was seen."""
    return text("""
        select worker_id from farm_workers where worker_id = :worker and beat = :beat
          and state in ('up', 'draining') and lease_until < clock_timestamp() for update skip locked""")


# Locks: rows of workers that are not live any more but have claimed calls.
def dead_with_claims() -> TextClause:
    """Dead or stopped workers that still have claimed calls."""
    return text("""
        select w.worker_id from farm_workers w where w.state in ('dead', 'stopped')
          and exists (select 1 from call_claims c where c.worker_id = w.worker_id and c.state = 'claimed')
        order by w.worker_id for update skip locked""")


def new_scheduler() -> TextClause:
    """Insert a scheduler with a fresh lease."""
    return text("""
        insert into farm_schedulers (scheduler_id, state, lease_until, lease_seconds, machine, pid, version)
        values (:scheduler_id, 'up', clock_timestamp() + :lease_seconds * interval '1 s', :lease_seconds, :machine,
          :pid, :version) on conflict (scheduler_id) do nothing""")


# Locks: as `suspects`.
def suspect_schedulers() -> TextClause:
    """Live schedulers whose lease ran out."""
    return text("""
        select scheduler_id as worker_id, beat, lease_seconds from farm_schedulers
        where state in ('up', 'draining') and lease_until < clock_timestamp() order by scheduler_id
        for key share skip locked""")


# Locks: the scheduler's row; its runs stay as they are: who takes them sees that their scheduler is dead.
def bury_scheduler() -> TextClause:
    """Declare a scheduler dead that is still silent since the beat that was seen."""
    return text("""
        update farm_schedulers set state = 'dead' where scheduler_id = (
          select scheduler_id from farm_schedulers where scheduler_id = :scheduler and beat = :beat
            and state in ('up', 'draining') and lease_until < clock_timestamp() for update skip locked)
        returning scheduler_id""")


# Locks nothing.
def list_hosts() -> TextClause:
    """Every host with its newest worker and what it holds."""
    return text("""
        select h.host, h.state, h.machine, h.labels, h.host_id, w.worker_id, w.state as worker_state, w.slots,
          w.codex_version, w.version, w.free_bytes, w.min_free_bytes, w.pid, w.started_at, w.lease_until, w.looked_at,
          w.lease_seconds, h.account, h.run_bytes,
          coalesce(w.lease_until > clock_timestamp() and w.state in ('up', 'draining'), false) as alive,
          cast(extract(epoch from clock_timestamp() - w.lease_until) as float8) as silent_seconds,
          (select count(*) from call_claims c where c.worker_id = w.worker_id and c.state = 'claimed') as claimed,
          (select count(*) from call_claims c where c.sent_host = h.host and c.state = 'stranded') as stranded,
          (select count(*) from node_placements p join flow_runs r on r.run_id = p.run_id
            where p.host = h.host and r.state <> 'ended') as nodes
        from farm_hosts h left join lateral (select * from farm_workers x where x.host = h.host
          order by x.started_at desc limit 1) w on true
        order by h.host""")


# Locks nothing.
def list_schedulers() -> TextClause:
    """Every scheduler that did not end in order, the newest first."""
    return text("""
        select scheduler_id, machine, pid, started_at,
          coalesce(lease_until > clock_timestamp() and state in ('up', 'draining'), false) as alive
        from farm_schedulers where state <> 'stopped' order by started_at desc""")
