"""Statements of the readers. They lock nothing and create nothing."""

from __future__ import annotations

from sqlalchemy import TextClause, text

# A run's own rows stay below; commands that write into a live run number from here (rules of the protocol 44).
FOREIGN_SEQ_BASE = 1 << 40

_LEAN = (
    "run_id", "seq", "call_id", "path", "position", "attempt", "kind", "event", "fence", "request_id", "node_id",
    "role", "label", "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path",
    "start_commit", "allocation", "pending_tree", "held_tree", "snapshot_digest", "input_state", "tokens",
    "result_bytes", "result_digest", "host", "written_at",
)  # fmt: skip
_LEAN_COLUMNS = ", ".join(f"c.{name}" for name in _LEAN)
_EVENT_COLUMNS = ", ".join(
    f"e.{name}" if name in ("run_id", "seq", "path", "position", "kind", "label", "written_at") else "null"
    for name in _LEAN
)
_RESULT = "coalesce(c.result, (select f.bytes from flow_results f where f.digest = c.result_ref))"


# ONE statement for both tables: two would lose a row that commits between them (rules of the protocol 17).
def page(*, with_results: bool = False) -> TextClause:
    """Rows of a run after a seq, in order."""
    result = _RESULT if with_results else "null::bytea"
    return text(f"""
        select * from (
          (select false as is_event, null as op, {_LEAN_COLUMNS}, c.detail_json as detail_json, {result} as result
             from flow_calls c where c.run_id = :run and c.seq > :after and c.seq < {FOREIGN_SEQ_BASE}
             order by c.seq limit :limit)
          union all
          (select true, e.op, {_EVENT_COLUMNS}, e.payload_json, null
             from flow_events e where e.run_id = :run and e.seq > :after and e.seq < {FOREIGN_SEQ_BASE}
             order by e.seq limit :limit)
        ) p order by p.seq limit :limit""")


def call_rows() -> TextClause:
    """All rows of a call, with results."""
    return text(f"""
        select {_LEAN_COLUMNS}, c.detail_json, {_RESULT} as result from flow_calls c
        where c.call_id = :call order by c.seq""")


def node_rows() -> TextClause:
    """What decides a node's worktree: where it was placed and what its executor calls and commits ended as."""
    return text(f"""
        select {_LEAN_COLUMNS}, c.detail_json, null::bytea as result from flow_calls c
        where c.run_id = :run and c.node_id = :node and (c.event = 'placed'
          or (c.terminal and (c.kind = 'commit' or exists (
            select 1 from call_claims k where k.call_id = c.call_id and k.effect = 'executor'))))
        order by c.seq""")
