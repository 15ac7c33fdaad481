"""Many claims in one transaction, and a page of a run's rows with a plan that is made once a session.

`crw_claims` asks for several calls of one worker at once: their claims are locked
together, by call id, then each is asked for as by itself (`crw_claim`), in the order
of their nodes, so that two workers never hold each other's placements. An outbox row
is locked by whoever has its claim, or in passing by a publisher that waits for nobody,
so that it may come before another call's placement. A worker older than
`farm_meta.min_writer` is granted nothing.

`crw_page` is the readers' page: planning it took longer than reading it.
Source: rules of the protocol 3, 17, 32, 38, 42.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

CLAIMS = """
create function crw_claims(p_worker text, p_writer integer, p_calls text[], p_requests text[], p_grants text[])
returns table (k bigint, denied text, granted call_claims, prepared_json text, prepared_at timestamptz)
language plpgsql set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $crw$
declare
  asked record;
begin
  if p_writer < (select m.min_writer from farm_meta m) then
    return query select u.k::bigint, 'version', null::call_claims, null::text, null::timestamptz
      from generate_series(1, cardinality(p_calls)) u(k);
    return;
  end if;
  if cardinality(p_calls) = 1 then
    return query select 1::bigint, g.denied, g.granted, g.prepared_json, g.prepared_at
      from crw_claim(p_worker, p_calls[1], p_requests[1], p_grants[1]) g;
    return;
  end if;
  -- The worker's own row first: a claim and "this worker is dead" exclude each other.
  perform 1 from farm_workers w where w.worker_id = p_worker for share;
  perform 1 from call_claims c where c.call_id = any(p_calls) order by c.call_id for no key update;
  for asked in
    select u.call, u.request, u.grant_id, u.k from unnest(p_calls, p_requests, p_grants) with ordinality
        u(call, request, grant_id, k) left join call_claims c on c.call_id = u.call
     order by c.run_id, c.node_id nulls first, u.call, u.k
  loop
    return query select asked.k, g.denied, g.granted, g.prepared_json, g.prepared_at
      from crw_claim(p_worker, asked.call, asked.request, asked.grant_id) g;
  end loop;
end
$crw$;
"""

_COLUMNS = (
    "run_id", "seq", "call_id", "path", "position", "attempt", "kind", "event", "fence", "request_id", "node_id",
    "role", "label", "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path",
    "start_commit", "allocation", "pending_tree", "held_tree", "snapshot_digest", "input_state", "tokens",
    "result_bytes", "result_digest", "host", "written_at",
)  # fmt: skip
_TYPES = {
    "seq": "bigint", "position": "integer", "attempt": "integer", "fence": "bigint", "allocation": "integer",
    "tokens": "bigint", "result_bytes": "bigint", "written_at": "timestamptz",
}  # fmt: skip
_OF_EVENTS = ("run_id", "seq", "path", "position", "kind", "label", "written_at")
_RETURNED = ", ".join(f'"{name}" {_TYPES.get(name, "text")}' for name in _COLUMNS)
_CALL = ", ".join(f'c."{name}"' for name in _COLUMNS)
_EVENT = ", ".join(f'e."{name}"' if name in _OF_EVENTS else f"null::{_TYPES.get(name, 'text')}" for name in _COLUMNS)

PAGE = f"""
create function crw_page(p_run text, p_after bigint, p_limit integer, p_results boolean)
returns table (is_event boolean, op text, {_RETURNED}, detail_json text, result bytea, result_ref text)
language plpgsql stable set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off as $crw$
#variable_conflict use_column
begin
  -- ONE statement for both tables: two would lose a row that commits between them.
  return query select * from (
    (select false, null::text, {_CALL}, c.detail_json, case when p_results then c.result end,
        case when p_results then c.result_ref end
       from flow_calls c where c.run_id = p_run and c.seq > p_after and c.seq < 1099511627776
       order by c.seq limit p_limit)
    union all
    (select true, e.op, {_EVENT}, e.payload_json, null, null
       from flow_events e where e.run_id = p_run and e.seq > p_after and e.seq < 1099511627776
       order by e.seq limit p_limit)
  ) p order by p.seq limit p_limit;
end
$crw$;
"""


def upgrade() -> None:
    # On the bare cursor: a function's text may have percent signs, and no parameters are meant by them.
    cursor = op.get_bind().connection.cursor()
    cursor.execute(CLAIMS)
    cursor.execute(PAGE)
