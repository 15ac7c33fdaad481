"""Statements of claims outside the hot path."""

from __future__ import annotations

from sqlalchemy import TextClause, text

# The queue of a waiting call is computed when it is published, never stored: a placement that was dropped or moved
# takes its waiting calls along. `c` is the claim, `p` its node's placement, `r` its run.
QUEUE = """case when coalesce(case when c.state = 'stranded' then c.sent_host end, c.pin_host, p.host) is not null
    then 'host.' || coalesce(case when c.state = 'stranded' then c.sent_host end, c.pin_host, p.host)
  when r.host_label is not null then 'farm.' || r.host_label else 'farm' end"""


# Locks nothing: a hint for a worker with a free slot and no message; the claim judges.
def claimable() -> TextClause:
    """Waiting calls this worker could be granted: its host's stranded ones, its host's, then anybody's."""
    return text("""
        select c.call_id, c.request_id from farm_workers w
          join call_claims c on (c.state = 'stranded' and c.sent_host = w.host) or (c.state = 'open'
            and c.call_id in (select o.call_id from outbox o))
          join flow_runs r on r.run_id = c.run_id
          left join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
        where w.worker_id = :worker and w.state in ('up', 'draining') and r.format <= w.version
          and (c.state = 'stranded' or (
            r.stop is null and r.state in ('running', 'queued')
            and coalesce(c.pin_host, w.host) = w.host and coalesce(p.host, w.host) = w.host
            and (r.host_label is null or r.host_label = any(w.labels))
            and coalesce(w.free_bytes, w.min_free_bytes) >= w.min_free_bytes
            and (w.state = 'up' or coalesce(c.pin_host, p.host) = w.host)))
        order by c.state = 'stranded' desc, coalesce(c.pin_host, p.host) is not null desc, c.opened_at
        limit :limit""")


# Locks: the worker's claims, by call id; the callers have the worker's row.
def claims_of_workers() -> TextClause:
    """Lock the claimed calls of these workers."""
    return text("""
        select call_id from call_claims where worker_id = any(:workers) and state = 'claimed'
        order by call_id for no key update""")


# Locks: the claims over their deadline by more than a lease, by call id, those of nobody else's transaction.
def claims_overdue() -> TextClause:
    """Lock claimed calls whose holder should have ended them long ago.

    Each holder gets twice as long as the one before: one that was merely slow to end would be replaced for ever.
    An agent's call whose last row announces a push is `finishing`: its turn is over and only the hub is awaited,
    which no other holder could do any faster. A deadline that no interval can hold must not keep the others waiting.
    """
    return text("""
        select c.call_id from call_claims c where c.state = 'claimed'
          and c.claimed_at + interval '1 s'
            * (least(c.deadline_seconds, :longest) + :grace * power(2, least(c.crashes, 12))) < clock_timestamp()
          and not (c.kind = 'agent' and 'push_requested' = (
            select f.event from flow_calls f where f.call_id = c.call_id order by f.seq desc limit 1))
        order by c.call_id for no key update of c skip locked""")


# Locks: one claim; the right is in the WHERE of the locking statement.
def claim_to_release() -> TextClause:
    """Lock a claim that its holder gives back, if it had sent nothing."""
    return text("""
        select call_id from call_claims where call_id = :call and fence = :fence and grant_id = :grant
          and state = 'claimed' and not sent for no key update""")


# Locks: one claim; the right is in the WHERE of the locking statement.
def claim_to_strand() -> TextClause:
    """Lock a claim whose holder has lost sight of it after it had sent something."""
    return text("""
        select call_id from call_claims where call_id = :call and fence = :fence and grant_id = :grant
          and state = 'claimed' and sent for no key update""")


# Locks: nothing new; the claims are locked. The fence rises, so the old holder writes nothing any more.
def free_claims() -> TextClause:
    """Take claims from their holder: open again, or stranded on the host where something was sent."""
    return text("""
        update call_claims set fence = fence + 1, worker_id = null, grant_id = null, rows_written = 0,
          crashes = crashes + :crashes, state = case when sent then 'stranded' else 'open' end
        where call_id = any(:calls) and state = 'claimed'
        returning call_id, run_id, node_id, request_id, sent, sent_host, crashes""")


# Locks nothing: a holder that is silent past its lease sends nothing, and what it would write is fenced off below.
def silent_holders() -> TextClause:
    """Workers that hold calls of a cancelled run and do not beat."""
    return text("""
        select distinct w.worker_id from call_claims c join farm_workers w on w.worker_id = c.worker_id
          join flow_runs r on r.run_id = c.run_id
        where c.run_id = :run and r.stop = 'cancel' and c.state = 'claimed'
          and (w.state in ('dead', 'stopped') or w.lease_until < clock_timestamp())""")


# Locks: the claims, by call id. State and holder are in the WHERE of the locking statement: who claims a stranded call
# meanwhile keeps it.
def claims_out_of_reach() -> TextClause:
    """Lock the calls of a cancelled run that nobody alive holds and that only a silent host could settle."""
    return text("""
        select c.call_id, c.sent from call_claims c join flow_runs r on r.run_id = c.run_id
        where c.run_id = :run and r.stop = 'cancel' and ((c.state = 'claimed' and c.worker_id = any(:silent))
          or (c.state = 'stranded' and not exists (select 1 from farm_workers w where w.host = c.sent_host
            and w.state in ('up', 'draining') and w.lease_until > clock_timestamp())))
        order by c.call_id for no key update of c""")


# Locks: nothing new; the claims are locked. The outbox row goes with the right to be claimed.
def lose_claims() -> TextClause:
    """Give up locked claims: the fence rises, nobody is granted them again, their run says what became of them."""
    return text("""
        with gone as (delete from outbox where call_id = any(:calls))
        update call_claims set state = 'lost', fence = fence + 1, worker_id = null, grant_id = null, rows_written = 0
        where call_id = any(:calls) and state in ('claimed', 'stranded') returning call_id""")


# Locks nothing.
def lost_claims() -> TextClause:
    """The calls of a run that were given up with their host and have no end yet."""
    return text("select call_id from call_claims where run_id = :run and state = 'lost' order by call_id")


# Locks: placements, by run and node. A placement that nothing was done on is dropped with the call that made it.
def unplace() -> TextClause:
    """Clear the placements that these calls made and nobody used."""
    return text("""
        with unused as (
          select p.run_id, p.node_id from node_placements p join call_claims c
              on c.run_id = p.run_id and c.node_id = p.node_id and c.call_id = p.made_by_call
          where c.call_id = any(:calls) and not c.sent and not p.used and p.host is not null
          order by p.run_id, p.node_id for no key update of p)
        update node_placements p set host = null, generation = p.generation + 1
        from unused u where u.run_id = p.run_id and u.node_id = p.node_id""")


# Locks: outbox rows of the calls.
def announce() -> TextClause:
    """Make calls due for publishing now."""
    return text("""
        insert into outbox as o (call_id, run_id, request_id, not_before, tries)
        select c.call_id, c.run_id, c.request_id, clock_timestamp(), 0 from call_claims c
        where c.call_id = any(:calls) and c.state in ('open', 'stranded') order by c.call_id
        on conflict (call_id) do update set request_id = excluded.request_id, not_before = excluded.not_before""")


# Locks: the claims, by call id. Their run is locked behind them by whoever appends meanwhile, as everywhere.
def claims_at_work() -> TextClause:
    """Lock the calls of a run that a worker has or had in hand."""
    return text("""
        select call_id from call_claims where run_id = :run and state in ('claimed', 'stranded', 'lost')
        order by call_id for no key update""")


# Locks: claims, by call id; their run comes behind them, as everywhere.
def claims_to_stop() -> TextClause:
    """Lock calls that a suffix ends."""
    return text("""
        select call_id, state from call_claims where run_id = :run and call_id = any(:calls)
        order by call_id for no key update""")


# Locks: the run; the lease is in the WHERE of that statement.
def run_of_lease() -> TextClause:
    """Lock a run that is still driven under this lease."""
    return text("""
        select run_id from flow_runs where run_id = :run and state = 'running' and scheduler_id = :scheduler
          and lease_epoch = :epoch for no key update""")


# Locks: nothing new; the claims are locked.
def stop_claims() -> TextClause:
    """Say to whoever has these calls, or is granted them, that they are to end."""
    return text("""
        update call_claims set stop = :why
        where run_id = :run and call_id = any(:calls) and state in ('claimed', 'stranded') and stop is null""")


# Locks nothing.
def stopped_claims() -> TextClause:
    """Which of these calls are to end, and why."""
    return text("select call_id, stop from call_claims where call_id = any(:calls) and stop is not null")


# Locks nothing.
def open_calls() -> TextClause:
    """The calls of a run that have not ended, and where each is."""
    return text("""
        select c.call_id, c.path, c.position, c.kind, c.role, c.label, c.node_id, c.state, c.request_id,
          coalesce(w.host, case when c.state = 'stranded' then c.sent_host end, c.pin_host, p.host) as host,
          c.worker_id, c.sent, c.crashes, c.attempt, c.fence, c.opened_at, c.claimed_at
        from call_claims c left join farm_workers w on w.worker_id = c.worker_id
          left join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
        where c.run_id = :run and c.state in ('open', 'claimed', 'stranded', 'lost')
        order by c.path, c.position""")
