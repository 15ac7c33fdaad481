"""`crw_append`: one group of the journal writer in one transaction and one round trip.

Locks, in the one order of every process: claims by call id, placements, runs by run
id; the outbox last. Every right stands in the WHERE of the statement that locks its
row, never in a sub-select: while a statement waits for a lock, Postgres checks only
the locked row again. New claims are inserted under their run's lock, so that the
insert never waits: whoever else wants to insert the same call holds that run first.

The group is written whole or not at all. Where a right is missing, nothing is
written; `crw_judge` then tells whose, and the writer sends the others again.
Its plans are made once a session (measured: an update planned anew each time took
three times as long).
Source: rules of the protocol 1, 3, 31, 37; design of the farm, "Append".
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

# Shape of the parameters, all of them JSON arrays of objects:
#   p_claims  one a claim: call, fence, wrote; n rows, sends, terminal. Without fence: a call that is opened or
#             ended by its run, locked so that its state holds.
#   p_runs    one a run: run; n rows, turns; intent; progress; finish; for a lease scheduler, epoch, wrote, sched rows.
#   p_rows, p_events, p_opens   what is inserted; `k` is the row's number within its run's share of the group.
# Returns `firsts` null when nothing was written.
APPEND = """
create function crw_append(
  p_host text, p_writer integer, p_claims json, p_runs json, p_uses text[], p_withdraw text, p_rows json,
  p_events json, p_opens json, p_results bytea[],
  out runs text[], out firsts bigint[], out withdrawn integer, out queues json)
language plpgsql set plan_cache_mode = force_generic_plan as $crw$
declare
  granted integer;
  alive boolean;
  open_calls text[];
begin
  -- 1. Claims, by call id.
  if p_withdraw is not null then
    select array_agg(x.call_id) into open_calls from (
      select c.call_id from call_claims c where c.run_id = p_withdraw and c.state = 'open'
      order by c.call_id for no key update) x;
  end if;
  select count(*) filter (where x.fence is not null), coalesce(bool_or(x.fence is null and x.live), false)
    into granted, alive
  from (
    select m.fence, c.state in ('open', 'claimed', 'stranded') or c.attempt >= m.attempt as live
      from json_to_recordset(p_claims) as m(call text, fence bigint, wrote integer, attempt integer)
      join call_claims c on c.call_id = m.call
     where m.fence is null or (c.state = 'claimed' and c.fence = m.fence and c.rows_written = m.wrote)
     order by c.call_id for no key update of c) x;
  if granted < (select count(m.fence) from json_to_recordset(p_claims) as m(fence bigint)) or alive then return; end if;

  -- 2. Placements: an effect on a host makes its node's placement lasting.
  if p_uses <> '{}' then
    with locked as (
      select p.run_id, p.node_id from call_claims c
        join node_placements p on p.run_id = c.run_id and p.node_id = c.node_id
       where c.call_id = any(p_uses) and not p.used order by p.run_id, p.node_id for no key update of p)
    update node_placements p set used = true from locked l where l.run_id = p.run_id and l.node_id = p.node_id;
  end if;

  -- 3. Runs, by run id: hot, so locked last and shortest.
  select array_agg(x.run_id), array_agg(x.next_seq) into runs, firsts from (
    select r.run_id, r.next_seq
      from json_to_recordset(p_runs) as m(
        run text, intent boolean, turns integer, scheduler text, epoch integer, wrote bigint)
      join flow_runs r on r.run_id = m.run
     where r.state <> 'ended' and not (m.intent and r.stop is not null)
       and (m.turns = 0 or r.max_turns is null or r.turns_sent + m.turns <= r.max_turns)
       and (m.scheduler is null or (r.state = 'running' and r.scheduler_id = m.scheduler
                                    and r.lease_epoch = m.epoch and r.sched_rows = m.wrote))
     order by r.run_id for no key update of r) x;

  -- Nothing opens a call without its run's lock, so what is looked at now stays.
  if coalesce(cardinality(runs), 0) < json_array_length(p_runs)
     or exists (select 1 from json_to_recordset(p_runs) as m(run text, finish boolean)
        join call_claims c on c.run_id = m.run where m.finish and c.state in ('open', 'claimed', 'stranded', 'lost')
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

  if p_rows is not null then
    insert into flow_calls (
      run_id, seq, call_id, path, position, attempt, kind, event, terminal, fence, request_id, node_id, role, label,
      commit_sha, thread_id, turn_id, operation, worktree_kind, worktree_path, start_commit, allocation, pending_tree,
      held_tree, snapshot_digest, input_state, tokens, result_bytes, result_digest, result, result_ref, host,
      written_at, writer, detail_json)
    select l.run, f.first + l.k, l.call, l.path, l.position, l.attempt, l.kind, l.event, l.terminal, l.fence,
      l.request, l.node, l.role, l.label, l.commit_sha, l.thread_id, l.turn_id, l.operation, l.worktree_kind,
      l.worktree_path, l.start_commit, l.allocation, l.pending_tree, l.held_tree, l.snapshot_digest, l.input_state,
      l.tokens, l.result_bytes, l.result_digest, p_results[l.res], l.result_ref,
      case when l.fence is not null then p_host end, clock_timestamp(), p_writer, l.detail
    from json_to_recordset(p_rows) as l(
      run text, k integer, call text, path text, "position" integer, attempt integer, kind text, event text,
      terminal boolean, fence bigint, request text, node text, role text, label text, commit_sha text, thread_id text,
      turn_id text, operation text, worktree_kind text, worktree_path text, start_commit text, allocation integer,
      pending_tree text, held_tree text, snapshot_digest text, input_state text, tokens bigint, result_bytes bigint,
      result_digest text, result_ref text, res integer, detail text)
    join unnest(runs, firsts) f(run, first) on f.run = l.run;
  end if;
  if p_events is not null then
    insert into flow_events (run_id, seq, kind, path, position, op, label, written_at, writer, payload_json)
    select l.run, f.first + l.k, l.event, l.path, l.position, l.op, l.label, clock_timestamp(), p_writer, l.detail
    from json_to_recordset(p_events) as l(
      run text, k integer, event text, path text, "position" integer, op text, label text, detail text)
    join unnest(runs, firsts) f(run, first) on f.run = l.run;
  end if;

  update flow_runs r set next_seq = r.next_seq + m.n + withdrawn, turns_sent = r.turns_sent + m.turns,
    sched_rows = r.sched_rows + m.sched + withdrawn,
    takes_without_progress = case when m.progress then 0 else r.takes_without_progress end,
    state = case when m.finish then 'ended' else r.state end,
    ended_at = case when m.finish then clock_timestamp() else r.ended_at end
  from json_to_recordset(p_runs) as m(
    run text, n integer, turns integer, sched integer, progress boolean, finish boolean)
  where r.run_id = m.run;

  if granted > 0 then
    update call_claims c set rows_written = c.rows_written + m.n, sent = c.sent or m.sends,
      sent_host = case when m.sends then coalesce(c.sent_host, p_host) else c.sent_host end,
      state = case when m.terminal then 'ended' else c.state end,
      worker_id = case when m.terminal then null else c.worker_id end,
      grant_id = case when m.terminal then null else c.grant_id end
    from json_to_recordset(p_claims) as m(call text, fence bigint, n integer, sends boolean, terminal boolean)
    where c.call_id = m.call and m.fence is not null;
  end if;

  if p_opens is not null then
    insert into call_claims as c (call_id, run_id, node_id, path, position, kind, role, label, effect, request_id,
      attempt, state, pin_host, deadline_seconds, opened_at)
    select o.call, o.run, o.node, o.path, o.position, o.kind, o.role, o.label, o.effect, o.request, o.attempt, 'open',
      o.pin, o.deadline, clock_timestamp()
    from json_to_recordset(p_opens) as o(
      run text, call text, node text, path text, "position" integer, kind text, role text, label text, effect text,
      request text, attempt integer, pin text, deadline double precision)
    on conflict (call_id) do update set request_id = excluded.request_id, attempt = excluded.attempt, state = 'open',
      pin_host = excluded.pin_host, fence = c.fence + 1, sent = false, sent_host = null, rows_written = 0, crashes = 0,
      deadline_seconds = excluded.deadline_seconds, opened_at = excluded.opened_at, claimed_at = null;

    insert into outbox as b (call_id, run_id, request_id, not_before, tries)
    select o.call, o.run, o.request, clock_timestamp() + interval '30 s', 1
    from json_to_recordset(p_opens) as o(run text, call text, request text)
    on conflict (call_id) do update set request_id = excluded.request_id, not_before = excluded.not_before, tries = 1;

    select json_object_agg(o.call, case
        when coalesce(o.pin, p.host) is not null then 'host.' || coalesce(o.pin, p.host)
        when r.host_label is not null then 'farm.' || r.host_label else 'farm' end) into queues
    from json_to_recordset(p_opens) as o(run text, call text, node text, pin text)
      join flow_runs r on r.run_id = o.run
      left join node_placements p on p.run_id = o.run and p.node_id = o.node;
  end if;
end
$crw$;
"""

# What each member of a group that was not written has to hear; asked in a transaction of its own.
#   ok        nothing is wrong with it: to be sent again
#   stored    an earlier try of the same group wrote it, its answer was lost
#   lost      the claim or the lease is not this writer's any more
#   stopping  an intent of a run with `stop`;  budget: a turn above the run's cap
#   live      a row or an open of a call that has a live or newer attempt;  busy: a finish while calls are open
# Locks nothing: a right that is gone does not come back, and the append has waited for whoever was writing.
JUDGE = """
create function crw_judge(p_members json, p_opens json, p_rows json) returns json language sql as $crw$
  with given as (
    select * from json_to_recordset(p_members) as g(
      m integer, call text, run text, fence bigint, wrote bigint, before integer, n integer, scheduler text,
      epoch integer, intent boolean, turns integer, turns_so_far integer, withdraw boolean, finish boolean)
  ), alive as (
    select o.m from json_to_recordset(p_opens) as o(m integer, call text, attempt integer)
      join call_claims c on c.call_id = o.call
     where c.state in ('open', 'claimed', 'stranded') or c.attempt >= o.attempt
    union
    select l.m from json_to_recordset(p_rows) as l(m integer, call text, fence bigint)
      join call_claims c on c.call_id = l.call
     where l.fence is null and c.state in ('open', 'claimed', 'stranded')
  )
  select json_agg(json_build_array(case
    when g.call is not null then case
      when c.call_id is null or c.fence <> g.fence or c.run_id <> g.run then 'lost'
      when c.rows_written >= g.wrote + g.before + g.n and c.rows_written > g.wrote then 'stored'
      when c.rows_written <> g.wrote or c.state <> 'claimed' or r.run_id is null or r.state = 'ended' then 'lost'
      when g.intent and r.stop is not null then 'stopping'
      when g.turns > 0 and r.turns_sent + g.turns_so_far > r.max_turns then 'budget'
      else 'ok' end
    else case
      when r.run_id is null or r.scheduler_id is distinct from g.scheduler or r.lease_epoch <> g.epoch then 'lost'
      when r.sched_rows >= g.wrote + g.before + g.n and r.sched_rows > g.wrote then 'stored'
      when r.sched_rows <> g.wrote or r.state <> 'running' then 'lost'
      when g.intent and r.stop is not null then 'stopping'
      when a.m is not null then 'live'
      when g.finish and exists (select 1 from call_claims b where b.run_id = g.run
        and (b.state in ('claimed', 'stranded', 'lost') or (b.state = 'open' and not g.withdraw))) then 'busy'
      else 'ok' end
    end, case when g.call is null then r.sched_rows else c.rows_written end) order by g.m)
  from given g left join call_claims c on c.call_id = g.call left join flow_runs r on r.run_id = g.run
    left join alive a on a.m = g.m
$crw$;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(JUDGE)
    op.get_bind().exec_driver_sql(APPEND)
