"""Statements that take everything from a host that is given up, or move its idle nodes away."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks: the host's row, as every transaction that changes who works on a host.
def host_to_change() -> TextClause:
    """Lock a host's row."""
    return text("select host, state from farm_hosts where host = :host for update")


# Locks: nothing new; the host's row is locked.
def set_host_state() -> TextClause:
    """The host's word: up, draining or lost."""
    return text("update farm_hosts set state = :state where host = :host")


# Locks: the claims, by call id. State and holder stand in the WHERE of the locking statement. A claim in flight has its
# worker's row FOR SHARE, and that row was locked and ended before: no claim of this host comes after this statement.
def claims_of_host() -> TextClause:
    """Lock what a host holds: calls its workers have, calls stranded there, calls pinned to it."""
    return text("""
        select c.call_id, c.run_id, c.state, c.sent from call_claims c
        where (c.state = 'claimed' and c.worker_id = any(:workers))
          or (c.state = 'stranded' and c.sent_host = :host) or (c.state = 'open' and c.pin_host = :host)
        order by c.call_id for no key update of c""")


# Locks nothing.
def workers_ever() -> TextClause:
    """Every worker a host has had that may still have claims."""
    return text("""
        select w.worker_id from farm_workers w where w.host = :host and exists (
          select 1 from call_claims c where c.worker_id = w.worker_id and c.state = 'claimed')""")


# Locks: nothing new; the claims are locked. The conversation is not reachable any more: any host may take the call.
def unpin() -> TextClause:
    """Let open calls go to any host."""
    return text("update call_claims set pin_host = null where call_id = any(:calls) and state = 'open'")


# Locks: placements, by run and node; those of ended runs stay as they were.
def unplace_host() -> TextClause:
    """Take every node of unfinished runs from a host; the next call of each is placed anew."""
    return text("""
        with there as (
          select p.run_id, p.node_id from node_placements p join flow_runs r on r.run_id = p.run_id
          where p.host = :host and r.state <> 'ended' order by p.run_id, p.node_id for no key update of p)
        update node_placements p set host = null, used = false, generation = p.generation + 1
        from there t where t.run_id = p.run_id and t.node_id = p.node_id returning p.run_id, p.node_id""")


# Locks nothing: the claims that wait for a place are announced again.
def waiting_on_nodes() -> TextClause:
    """The open calls of these nodes, given as two arrays side by side."""
    return text("""
        select c.call_id from unnest(cast(:runs as text[]), cast(:nodes as text[])) n(run, node)
          join call_claims c on c.run_id = n.run and c.node_id = n.node and c.state = 'open' order by c.call_id""")


# Locks nothing: a suspicion; the sweep has to see the same silence twice. A host is missed from the end of its newest
# worker's lease, and only while somebody waits for it: a machine that is switched off with nothing open is not lost.
def missed_hosts() -> TextClause:
    """Hosts that are silent for too long and have what a run waits for."""
    return text("""
        select h.host as worker_id, coalesce(w.beat, 0) as beat, coalesce(w.lease_seconds, 0) as lease_seconds
        from farm_hosts h join lateral (select * from farm_workers x where x.host = h.host
          order by x.started_at desc limit 1) w on true
        where h.state <> 'lost' and w.lease_until + :after * interval '1 s' < clock_timestamp()
          and not exists (select 1 from farm_workers x where x.host = h.host and x.state in ('up', 'draining')
            and x.lease_until > clock_timestamp())
          and (exists (select 1 from call_claims c where c.state = 'stranded' and c.sent_host = h.host)
            or exists (select 1 from call_claims c where c.state = 'open' and c.pin_host = h.host)
            or exists (select 1 from call_claims c join farm_workers x on x.worker_id = c.worker_id
              where x.host = h.host and c.state = 'claimed')
            or exists (select 1 from call_claims c join node_placements p on p.run_id = c.run_id
              and p.node_id = c.node_id where p.host = h.host and c.state = 'open'))
        order by h.host""")


# Locks nothing: what was opened for a lost host after it was given up.
def lost_with_rest() -> TextClause:
    """Lost hosts that something is still bound to."""
    return text("""
        select h.host from farm_hosts h where h.state = 'lost' and (
          exists (select 1 from call_claims c where c.state = 'stranded' and c.sent_host = h.host)
          or exists (select 1 from call_claims c where c.state = 'open' and c.pin_host = h.host)
          or exists (select 1 from call_claims c join farm_workers x on x.worker_id = c.worker_id
            where x.host = h.host and c.state = 'claimed')
          or exists (select 1 from node_placements p join flow_runs r on r.run_id = p.run_id
            where p.host = h.host and r.state <> 'ended'))
        order by h.host""")


# Locks nothing.
def lost_claims() -> TextClause:
    """The calls whose run has to say what became of them, by run."""
    return text("select distinct run_id from call_claims where state = 'lost' and run_id = any(:runs)")
