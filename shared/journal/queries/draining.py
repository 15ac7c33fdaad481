"""Statements about hosts that take no new nodes, their idle nodes, and what lies on their disks."""

from __future__ import annotations

from sqlalchemy import TextClause, text

_AT_WORK = "('open', 'claimed', 'stranded', 'lost')"
# `r` is the run. What `crw_claim` asks before it denies a draining host a conversation of no node.
_ANOTHER_HOST = """exists (select 1 from farm_workers w join farm_hosts o on o.host = w.host
            where o.state = 'up' and w.state = 'up' and w.lease_until > clock_timestamp() and w.version >= r.format
              and coalesce(w.free_bytes, w.min_free_bytes) >= w.min_free_bytes
              and (r.host_label is null or r.host_label = any(w.labels)))"""


# Locks: the host's live worker, after the host's row. A claim in flight has it FOR SHARE and is waited for.
def set_worker_state() -> TextClause:
    """The live worker's word follows its host's at once; each beat would bring it later."""
    return text("""
        update farm_workers set state = :state where host = :host and state in ('up', 'draining')""")


# Locks nothing: a hint for the sweep, which has to see the same twice, and `move_node` judges. A held or unknown newest
# call keeps its node: it goes on, or is looked up, where its conversation is. A node stays where no other host is.
def idle_nodes() -> TextClause:
    """Nodes of unfinished runs on draining hosts that nothing is at work on, with a mark that any work changes."""
    return text(f"""
        select p.run_id, p.node_id, p.host, p.generation,
          (select coalesce(max(f.seq), 0) from flow_calls f where f.run_id = p.run_id and f.node_id = p.node_id) as mark
        from farm_hosts h join node_placements p on p.host = h.host join flow_runs r on r.run_id = p.run_id
        where h.state = 'draining' and r.state <> 'ended'
          and not exists (select 1 from call_claims c where c.run_id = p.run_id and c.node_id = p.node_id
            and c.state in {_AT_WORK})
          and coalesce((select f.event from flow_calls f where f.run_id = p.run_id and f.node_id = p.node_id
            and f.kind = 'agent' and f.terminal and f.event <> 'withdrawn' order by f.seq desc limit 1), '')
            not in ('held', 'outcome_unknown')
          and {_ANOTHER_HOST}
        order by p.run_id, p.node_id limit :limit""")


# Locks: the node's claims at work, by call id.
def claims_at_work() -> TextClause:
    """Lock what is at work on a node."""
    return text(f"""
        select call_id from call_claims where run_id = :run and node_id = :node and state in {_AT_WORK}
        order by call_id for no key update""")


# Locks: the placement, after the claims. Which one it has to be stands in the WHERE of the locking statement.
def placement_to_move() -> TextClause:
    """Lock a node's placement, if it is still the one that was looked at."""
    return text("""
        select node_id from node_placements
        where run_id = :run and node_id = :node and host = :host and generation = :generation for no key update""")


# Locks: nothing new; the placement is locked, and whoever claims a call of the node has to lock it too.
def node_at_work() -> TextClause:
    """Whether something came to be at work on the node meanwhile."""
    return text(f"""
        select 1 from call_claims where run_id = :run and node_id = :node and state in {_AT_WORK} limit 1""")


# Locks: nothing new; the placement is locked.
def unplace_node() -> TextClause:
    """The node has no place: its next call is placed anew."""
    return text("""
        update node_placements set host = null, used = false, generation = generation + 1
        where run_id = :run and node_id = :node""")


# Locks: the claims, by call id. A conversation of a node that was moved; one of no node where another host is there for
# it, but for a call that goes on in place, and any on a host whose worker is gone.
def pinned_away() -> TextClause:
    """Lock open calls that are pinned to a draining host and will not be granted there."""
    return text(f"""
        select c.call_id, c.run_id from call_claims c join farm_hosts h on h.host = c.pin_host
          join flow_runs r on r.run_id = c.run_id
          left join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
        where c.state = 'open' and h.state = 'draining'
          and case when c.node_id is not null then p.host is distinct from h.host else not exists (
            select 1 from farm_workers w where w.host = h.host and w.state in ('up', 'draining')
              and w.lease_until > clock_timestamp())
            or (exists (select 1 from flow_calls f
                where f.call_id = c.call_id and f.attempt = c.attempt and f.event = 'prepared')
              and {_ANOTHER_HOST}) end
        order by c.call_id for no key update of c skip locked""")


# Locks: the host's row, for an instant.
def report_disk() -> TextClause:
    """What runs take on a host's disk."""
    return text("update farm_hosts set run_bytes = :bytes, run_bytes_at = clock_timestamp() where host = :host")
