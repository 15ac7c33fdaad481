"""`crw_append`: one group of the journal writer in one transaction and one round trip.

Locks, in the one order of every process: claims by call id, placements, runs by run
id; the outbox last. Every right is judged on the row that its lock returned, never
in a sub-select: while a statement waits for a lock, Postgres checks only the locked
row again. New claims are inserted under their run's lock, so that the insert never
waits: whoever else wants to insert the same call has to hold that run first.
Source: rules of the protocol 1, 3, 31, 37; design of the farm, "Append".
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

# Verdicts of a member:
#   ok        its rows are written
#   stored    an earlier try of the same group wrote them, its answer was lost
#   again     a member of the same writer before it was refused: to be sent again in the next group
#   lost      the claim or the lease is not this writer's any more
#   stopping  an intent of a run with `stop`;  budget: a turn above the run's cap
#   live      an open of a call that has a live attempt;  busy: a finish while calls are open
APPEND = """
create function crw_append(
  p_host text, p_writer integer, p_calls text[], p_uses text[], p_runs text[], p_withdraw text[], p_finish text[],
  p_members json, p_opens json, p_rows json, p_results bytea[])
returns table (m integer, status text, count bigint, seqs bigint[], queues json)
language plpgsql as $crw$
#variable_conflict use_column
declare
  held call_claims[];
  runs flow_runs[];
  busy text[] := '{}';
begin
  -- 1. claims, by call id: those that are written under, those that are opened again, open ones to be withdrawn.
  if p_withdraw = '{}' then
    select array_agg(x.claim) into held from (
      select c as claim from call_claims c where c.call_id = any(p_calls)
      order by c.call_id for no key update of c) x;
  else
    select array_agg(x.claim) into held from (
      select c as claim from call_claims c
      where c.call_id = any(p_calls) or (c.run_id = any(p_withdraw) and c.state = 'open')
      order by c.call_id for no key update of c) x;
  end if;

  -- 2. placements: an effect on the host makes its node's placement lasting.
  if p_uses <> '{}' then
    with locked as (
      select p.run_id, p.node_id from node_placements p
        join unnest(held) h on h.run_id = p.run_id and h.node_id = p.node_id
       where h.call_id = any(p_uses) and h.state = 'claimed' and not p.used
       order by p.run_id, p.node_id for no key update of p)
    update node_placements p set used = true from locked l where l.run_id = p.run_id and l.node_id = p.node_id;
  end if;

  -- 3. runs, by run id: hot, so locked last and shortest.
  select array_agg(x.run) into runs from (
    select r as run from flow_runs r where r.run_id = any(p_runs)
    order by r.run_id for no key update of r) x;

  -- A statement of its own: its snapshot is younger than the run's lock, and nothing opens a call without that lock.
  if p_finish <> '{}' then
    select coalesce(array_agg(distinct c.run_id), '{}') into busy from call_claims c
     where c.run_id = any(p_finish) and c.state in ('open', 'claimed', 'stranded', 'lost')
       and not (c.run_id = any(p_withdraw) and c.state = 'open'
                and c.call_id in (select h.call_id from unnest(held) h));
  end if;

  -- 4. Everything is locked: judge, number, write.
  return query
  with given as (
    select * from json_to_recordset(p_members) as g(
      m integer, call text, run text, fence bigint, wrote bigint, before integer, n integer, scheduler text,
      epoch integer, intent boolean, turns integer, terminal boolean, sends boolean, withdraw boolean,
      finish boolean, progress boolean)
  ), opening as (
    select * from json_to_recordset(p_opens) as o(
      m integer, call text, run text, node text, path text, "position" integer, kind text, role text, label text,
      effect text, request text, attempt integer, pin text, deadline double precision)
  ), line as materialized (
    select * from json_to_recordset(p_rows) as x(
      m integer, ord integer, is_event boolean, event text, call text, path text, "position" integer,
      attempt integer, kind text, request text, node text, role text, label text, terminal boolean, commit_sha text,
      thread_id text, turn_id text, operation text, worktree_kind text, worktree_path text, start_commit text,
      allocation integer, pending_tree text, held_tree text, snapshot_digest text, input_state text, tokens bigint,
      result_bytes bigint, result_digest text, result_ref text, res integer, op text, detail text)
  ), claim as (
    select * from unnest(held)
  ), run as (
    select * from unnest(runs)
  ), alive as (
    select o.m from opening o join claim c on c.call_id = o.call
     where c.state in ('open', 'claimed', 'stranded') or c.attempt >= o.attempt
    union
    select l.m from line l join claim c on c.call_id = l.call where c.state in ('open', 'claimed', 'stranded')
  ), judged as (
    select g.*, case when g.call is null then r.sched_rows else c.rows_written end as written, case
      when g.call is not null then case
        when c.call_id is null or c.fence <> g.fence or c.run_id <> g.run then 'lost'
        when c.rows_written <> g.wrote then case
          when c.rows_written >= g.wrote + g.before + g.n then 'stored'
          when c.rows_written > g.wrote and c.state = 'claimed' then 'again'
          else 'lost' end
        when c.state <> 'claimed' or r.run_id is null or r.state = 'ended' then 'lost'
        when g.intent and r.stop is not null then 'stopping'
        when g.turns > 0 and r.turns_sent + sum(g.turns) over (partition by g.run order by g.m) > r.max_turns
          then 'budget'
        else 'ok' end
      else case
        when r.run_id is null or r.scheduler_id is distinct from g.scheduler or r.lease_epoch <> g.epoch then 'lost'
        when r.sched_rows <> g.wrote then case
          when r.sched_rows >= g.wrote + g.before + g.n then 'stored'
          when r.sched_rows > g.wrote and r.state = 'running' then 'again'
          else 'lost' end
        when r.state <> 'running' then 'lost'
        when g.intent and r.stop is not null then 'stopping'
        when a.m is not null then 'live'
        when g.finish and g.run = any(busy) then 'busy'
        else 'ok' end
      end as first_verdict
    from given g left join claim c on c.call_id = g.call left join run r on r.run_id = g.run
      left join alive a on a.m = g.m
  ), verdict as materialized (
    select j.*, case when j.first_verdict = 'ok' and bool_or(j.first_verdict <> 'ok') over (
        partition by j.run, j.call order by j.m rows between unbounded preceding and 1 preceding)
      then 'again' else j.first_verdict end as final
    from judged j
  ), numbered as materialized (
    select y.m, y.ord, y.run, y.owner, y.withdrawn,
           r.next_seq - 1 + row_number() over (partition by y.run order by y.m, y.ord, y.withdrawn) as seq
    from (
      select v.m, l.ord, v.run, v.call as owner, null::text as withdrawn
        from verdict v join line l on l.m = v.m where v.final = 'ok'
      union all
      select v.m, -1, v.run, null, c.call_id
        from verdict v join claim c on c.run_id = v.run and c.state = 'open' where v.final = 'ok' and v.withdraw
    ) y join run r on r.run_id = y.run
  ), call_rows as (
    insert into flow_calls (
      run_id, seq, call_id, path, position, attempt, kind, event, terminal, fence, request_id, node_id, role, label,
      commit_sha, thread_id, turn_id, operation, worktree_kind, worktree_path, start_commit, allocation, pending_tree,
      held_tree, snapshot_digest, input_state, tokens, result_bytes, result_digest, result, result_ref, host,
      written_at, writer, detail_json)
    select n.run, n.seq, coalesce(c.call_id, l.call), coalesce(c.path, l.path), coalesce(c.position, l.position),
      coalesce(c.attempt, l.attempt), coalesce(c.kind, l.kind), l.event, l.terminal, c.fence,
      coalesce(c.request_id, l.request), coalesce(c.node_id, l.node), coalesce(l.role, c.role),
      coalesce(l.label, c.label), l.commit_sha, l.thread_id, l.turn_id, l.operation, l.worktree_kind, l.worktree_path,
      l.start_commit, l.allocation, l.pending_tree, l.held_tree, l.snapshot_digest, l.input_state, l.tokens,
      l.result_bytes, l.result_digest, p_results[l.res], l.result_ref,
      case when c.call_id is not null then p_host end, clock_timestamp(), p_writer, l.detail
    from numbered n join line l on l.m = n.m and l.ord = n.ord left join claim c on c.call_id = n.owner
    where not l.is_event
  ), withdrawn_rows as (
    insert into flow_calls (run_id, seq, call_id, path, position, attempt, kind, event, terminal, request_id, node_id,
      role, label, written_at, writer, detail_json)
    select n.run, n.seq, c.call_id, c.path, c.position, c.attempt, c.kind, 'withdrawn', true, c.request_id, c.node_id,
      c.role, c.label, clock_timestamp(), p_writer, '{}'
    from numbered n join claim c on c.call_id = n.withdrawn
  ), event_rows as (
    insert into flow_events (run_id, seq, kind, path, position, op, label, written_at, writer, payload_json)
    select n.run, n.seq, l.event, l.path, l.position, l.op, l.label, clock_timestamp(), p_writer, l.detail
    from numbered n join line l on l.m = n.m and l.ord = n.ord where l.is_event
  ), counted_runs as (
    select f.run, coalesce(k.rows, 0) as rows, coalesce(k.sched, 0) as sched, f.turns, f.finish, f.progress
    from (select v.run, sum(v.turns) as turns, bool_or(v.finish) as finish, bool_or(v.progress) as progress
            from verdict v where v.final = 'ok' group by v.run) f
    left join (select n.run, count(*) as rows, count(*) filter (where n.owner is null) as sched
                 from numbered n group by n.run) k on k.run = f.run
  ), hot as (
    update flow_runs r set next_seq = r.next_seq + k.rows, sched_rows = r.sched_rows + k.sched,
      turns_sent = r.turns_sent + k.turns,
      takes_without_progress = case when k.progress then 0 else r.takes_without_progress end,
      state = case when k.finish then 'ended' else r.state end,
      ended_at = case when k.finish then clock_timestamp() else r.ended_at end
    from counted_runs k where r.run_id = k.run
  ), marked as (
    update call_claims c set rows_written = c.rows_written + k.rows, sent = c.sent or k.sends,
      sent_host = case when k.sends then coalesce(c.sent_host, p_host,
        (select w.host from farm_workers w where w.worker_id = c.worker_id)) else c.sent_host end,
      state = case when k.terminal then 'ended' else c.state end,
      worker_id = case when k.terminal then null else c.worker_id end,
      grant_id = case when k.terminal then null else c.grant_id end
    from (select v.call, sum(v.n) as rows, bool_or(v.sends) as sends, bool_or(v.terminal) as terminal
            from verdict v where v.final = 'ok' and v.call is not null group by v.call) k
    where c.call_id = k.call
  ), taken_back as (
    update call_claims c set state = 'withdrawn', fence = c.fence + 1 from numbered n where c.call_id = n.withdrawn
  ), forgotten as (
    delete from outbox b using numbered n where b.call_id = n.withdrawn
  ), opened as (
    insert into call_claims as c (call_id, run_id, node_id, path, position, kind, role, label, effect, request_id,
      attempt, state, pin_host, deadline_seconds, opened_at)
    select o.call, v.run, o.node, o.path, o.position, o.kind, o.role, o.label, o.effect, o.request, o.attempt, 'open',
      o.pin, o.deadline, clock_timestamp()
    from opening o join verdict v on v.m = o.m where v.final = 'ok'
    on conflict (call_id) do update set request_id = excluded.request_id, attempt = excluded.attempt, state = 'open',
      pin_host = excluded.pin_host, fence = c.fence + 1, sent = false, sent_host = null, rows_written = 0, crashes = 0,
      deadline_seconds = excluded.deadline_seconds, opened_at = excluded.opened_at, claimed_at = null
    where c.state in ('ended', 'withdrawn', 'lost') and c.attempt < excluded.attempt
  ), announced as (
    insert into outbox as b (call_id, run_id, request_id, not_before, tries)
    select o.call, v.run, o.request, clock_timestamp() + interval '30 s', 1
    from opening o join verdict v on v.m = o.m where v.final = 'ok'
    on conflict (call_id) do update set request_id = excluded.request_id, not_before = excluded.not_before, tries = 1
  )
  select v.m, v.final, case when v.final = 'ok' then coalesce(s.rows, 0) else v.written end, s.seqs, q.queues
  from verdict v
  left join (select n.m, count(*) as rows, array_agg(n.seq order by n.ord) filter (where n.ord >= 0) as seqs
               from numbered n group by n.m) s on s.m = v.m
  left join (
    select o.m, json_object_agg(o.call, case
        when coalesce(o.pin, p.host) is not null then 'host.' || coalesce(o.pin, p.host)
        when r.host_label is not null then 'farm.' || r.host_label else 'farm' end) as queues
    from opening o join run r on r.run_id = o.run
      left join node_placements p on p.run_id = o.run and p.node_id = o.node
    group by o.m) q on q.m = v.m
  order by v.m;
end
$crw$;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(APPEND)
