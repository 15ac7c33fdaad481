"""`crw_append` takes arrays of composites, and runs only the statements that a group needs.

A group of rows under claims is five statements: lock the claims, lock the runs, insert,
move the runs, move the claims; before it was nine, most of which read JSON (measured: a
fifth of the time a group takes the database). What is locked, judged and written, and in
which order, is as before.

The function stands beside the one with JSON, which programs of the schema before call
until they end: migrations expand, then contract.
Source: rules of the protocol 1, 3, 31, 37, 38, 42; design of the farm, "Append".
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"

# The members of the arrays; the program writes them in this order (`shared/journal/composites.py`).
#   crw_claim_part  one a claim: fence, wrote; n rows, sends, terminal. Without fence: a call that is opened (with the
#                   attempt that must be newer) or ended by its run, locked so that its state holds; `takes` lets it
#                   be open.
#   crw_run_part    one a run: n rows, turns; intent; progress; finish; for a lease scheduler, epoch, wrote, sched rows.
#   the others      what is inserted; `r` is the number of the row's run in p_runs, `k` the row's within that run's
#                   share of the group, `d` that of its text in p_details and of its result in p_results.
TYPES = """
create type crw_claim_part as (
  call text, fence bigint, wrote integer, n integer, sends boolean, terminal boolean, attempt integer, takes boolean);
create type crw_run_part as (
  run text, n integer, sched integer, turns integer, intent boolean, progress boolean, finish boolean, scheduler text,
  epoch integer, wrote bigint);
create type crw_call_row as (
  r integer, k integer, d integer, run text, call text, path text, "position" integer, attempt integer,
  kind text, event text, terminal boolean, fence bigint, request text, node text, role text, label text,
  commit_sha text, thread_id text, turn_id text, operation text, worktree_kind text, worktree_path text,
  start_commit text, allocation integer, pending_tree text, held_tree text, snapshot_digest text, input_state text,
  tokens bigint, result_bytes bigint, result_digest text, result_ref text);
create type crw_event_row as (
  r integer, k integer, d integer, run text, event text, path text, "position" integer, op text, label text);
create type crw_open_part as (
  run text, call text, node text, path text, "position" integer, kind text, role text, label text, effect text,
  request text, attempt integer, pin text, deadline double precision, held boolean);
"""

# `p_claimed` is how many of p_claims have a fence. `firsts` are the numbers of each run's first row, in the order of
# p_runs; null when nothing was written.
APPEND = """
create function crw_append(
  p_host text, p_writer integer, p_claimed integer, p_claims crw_claim_part[], p_runs crw_run_part[], p_uses text[],
  p_withdraw text, p_rows crw_call_row[], p_events crw_event_row[], p_opens crw_open_part[], p_details text[],
  p_results bytea[], out firsts bigint[], out withdrawn integer, out queues json)
language plpgsql set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $crw$
declare
  granted integer;
  alive boolean;
  finishing boolean;
  open_calls text[];
begin
  -- 1. Claims, by call id.
  if p_withdraw is not null then
    select array_agg(x.call_id) into open_calls from (
      select c.call_id from call_claims c where c.run_id = p_withdraw and c.state = 'open'
      order by c.call_id for no key update) x;
  end if;
  select count(x.fence), coalesce(bool_or(x.fence is null and x.live), false) into granted, alive from (
    select m.fence, c.state in ('claimed', 'stranded')
        or (c.state = 'open' and not coalesce(m.takes, false)) or c.attempt >= m.attempt as live
      from unnest(p_claims) m join call_claims c on c.call_id = m.call
     where m.fence is null or (c.state = 'claimed' and c.fence = m.fence and c.rows_written = m.wrote)
     order by c.call_id for no key update of c) x;
  if granted < p_claimed or alive then return; end if;

  -- 2. Placements: an effect on a host makes its node's placement lasting.
  if cardinality(p_uses) > 0 then
    with locked as (
      select p.run_id, p.node_id from call_claims c
        join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
       where c.call_id = any(p_uses) and not p.used order by p.run_id, p.node_id for no key update of p)
    update node_placements p set used = true from locked l where l.run_id = p.run_id and l.node_id = p.node_id;
  end if;

  -- 3. Runs, by run id: hot, so locked last and shortest.
  select array_agg(x.next_seq order by x.r), bool_or(x.finish) into firsts, finishing from (
    select m.r, m.finish, r.next_seq
      from unnest(p_runs) with ordinality m(
        run, n, sched, turns, intent, progress, finish, scheduler, epoch, wrote, r)
      join flow_runs r on r.run_id = m.run
     where r.state <> 'ended' and not (m.intent and r.stop is not null)
       and (m.turns = 0 or r.max_turns is null or r.turns_sent + m.turns <= r.max_turns)
       and (m.scheduler is null or (r.state = 'running' and r.scheduler_id = m.scheduler
                                    and r.lease_epoch = m.epoch and r.sched_rows = m.wrote))
     order by r.run_id for no key update of r) x;
  if coalesce(cardinality(firsts), 0) < cardinality(p_runs) then
    firsts := null;
    return;
  end if;
  -- Nothing opens a call without its run's lock, so what is looked at now stays.
  if finishing and exists (select 1 from unnest(p_runs) m join call_claims c on c.run_id = m.run
      where m.finish and c.state in ('open', 'claimed', 'stranded', 'lost')
        and c.call_id <> all(coalesce(open_calls, '{}'))) then
    firsts := null;
    return;
  end if;

  -- 4. Everything is locked and allowed: write.
  withdrawn := coalesce(cardinality(open_calls), 0);
  if withdrawn > 0 then
    insert into flow_calls (run_id, seq, call_id, path, position, attempt, kind, event, terminal, request_id, node_id,
      role, label, written_at, writer, detail_json)
    select c.run_id, firsts[1] - 1 + w.k, c.call_id, c.path, c.position, c.attempt, c.kind, 'withdrawn', true,
      c.request_id, c.node_id, c.role, c.label, clock_timestamp(), p_writer, '{}'
    from unnest(open_calls) with ordinality w(call, k) join call_claims c on c.call_id = w.call;
    update call_claims c set state = 'withdrawn', fence = c.fence + 1 where c.call_id = any(open_calls);
    delete from outbox b where b.call_id = any(open_calls);
    firsts[1] := firsts[1] + withdrawn;
  end if;

  if cardinality(p_rows) > 0 then
    insert into flow_calls (
      run_id, seq, call_id, path, position, attempt, kind, event, terminal, fence, request_id, node_id, role, label,
      commit_sha, thread_id, turn_id, operation, worktree_kind, worktree_path, start_commit, allocation, pending_tree,
      held_tree, snapshot_digest, input_state, tokens, result_bytes, result_digest, result, result_ref, host,
      written_at, writer, detail_json)
    select l.run, firsts[l.r] + l.k, l.call, l.path, l.position, l.attempt, l.kind, l.event, l.terminal, l.fence,
      l.request, l.node, l.role, l.label, l.commit_sha, l.thread_id, l.turn_id, l.operation, l.worktree_kind,
      l.worktree_path, l.start_commit, l.allocation, l.pending_tree, l.held_tree, l.snapshot_digest, l.input_state,
      l.tokens, l.result_bytes, l.result_digest, p_results[l.d], l.result_ref,
      case when l.fence is not null then p_host end, clock_timestamp(), p_writer, p_details[l.d]
    from unnest(p_rows) l;
  end if;
  if cardinality(p_events) > 0 then
    insert into flow_events (run_id, seq, kind, path, position, op, label, written_at, writer, payload_json)
    select l.run, firsts[l.r] + l.k, l.event, l.path, l.position, l.op, l.label, clock_timestamp(), p_writer,
      p_details[l.d]
    from unnest(p_events) l;
  end if;

  update flow_runs r set next_seq = r.next_seq + m.n + withdrawn, turns_sent = r.turns_sent + m.turns,
    sched_rows = r.sched_rows + m.sched + withdrawn,
    takes_without_progress = case when m.progress then 0 else r.takes_without_progress end,
    state = case when m.finish then 'ended' else r.state end,
    ended_at = case when m.finish then clock_timestamp() else r.ended_at end
  from unnest(p_runs) m where r.run_id = m.run;

  if p_claimed > 0 then
    update call_claims c set rows_written = c.rows_written + m.n, sent = c.sent or m.sends,
      sent_host = case when m.sends then coalesce(c.sent_host, p_host) else c.sent_host end,
      state = case when m.terminal then 'ended' else c.state end,
      worker_id = case when m.terminal then null else c.worker_id end,
      grant_id = case when m.terminal then null else c.grant_id end
    from unnest(p_claims) m where c.call_id = m.call and m.fence is not null;
  end if;

  -- Rows of calls without a worker: an entry without a fence and without an attempt that is opened.
  if cardinality(p_claims) > p_claimed then
    update call_claims c set state = 'ended', fence = c.fence + (c.state = 'open')::integer
      from unnest(p_claims) m
     where c.call_id = m.call and m.fence is null and m.attempt is null and c.state in ('lost', 'open');
    delete from outbox b using unnest(p_claims) m where b.call_id = m.call and m.takes;
  end if;

  if cardinality(p_opens) > 0 then
    insert into call_claims as c (call_id, run_id, node_id, path, position, kind, role, label, effect, request_id,
      attempt, state, pin_host, deadline_seconds, opened_at)
    select o.call, o.run, o.node, o.path, o.position, o.kind, o.role, o.label, o.effect, o.request, o.attempt, 'open',
      o.pin, o.deadline, clock_timestamp()
    from unnest(p_opens) o
    on conflict (call_id) do update set request_id = excluded.request_id, attempt = excluded.attempt, state = 'open',
      pin_host = excluded.pin_host, stop = null, fence = c.fence + 1, sent = false, sent_host = null,
      rows_written = 0, crashes = 0, deadline_seconds = excluded.deadline_seconds, opened_at = excluded.opened_at,
      claimed_at = null;

    insert into outbox as b (call_id, run_id, request_id, not_before, tries)
    select o.call, o.run, o.request,
      case when o.held then 'infinity' else clock_timestamp() + interval '30 s' end,
      case when o.held then 0 else 1 end
    from unnest(p_opens) o
    on conflict (call_id) do update set request_id = excluded.request_id, not_before = excluded.not_before,
      tries = excluded.tries;

    select json_object_agg(o.call, case
        when coalesce(o.pin, p.host) is not null then 'host.' || coalesce(o.pin, p.host)
        when r.host_label is not null then 'farm.' || r.host_label else 'farm' end) into queues
    from unnest(p_opens) o
      join flow_runs r on r.run_id = o.run
      left join node_placements p on p.run_id = o.run and p.node_id = o.node
     where o.held is not true;
  end if;
end
$crw$;
"""


def upgrade() -> None:
    op.execute(TYPES)
    op.get_bind().connection.cursor().execute(APPEND)
