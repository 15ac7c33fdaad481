"""`crw_claim`: one worker asks for one call; a grant or the reason against it, in one round trip.

Locks, in the one order of every process: the worker's own row (FOR SHARE: a claim
and "this worker is dead" exclude each other), the claim, the placement, the outbox.
The run is only looked at: whether its intents may still commit is judged by each
append under the run's lock. Source: rules of the protocol 3, 6, 12, 21, 22, 32, 43.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

CLAIM = """
create function crw_claim(
  p_worker text, p_call text, p_request text, p_grant text,
  out denied text, out granted call_claims, out prepared_json text, out prepared_at timestamptz)
language plpgsql set plan_cache_mode = force_generic_plan as $crw$
declare
  worker farm_workers;
  c call_claims;
  run record;
  placed text;
begin
  select * into worker from farm_workers w where w.worker_id = p_worker and w.state in ('up', 'draining') for share;
  if not found then denied := 'dead'; return; end if;

  select * into c from call_claims k where k.call_id = p_call for no key update;
  if not found then denied := 'unknown'; return; end if;
  if c.state = 'withdrawn' then denied := 'withdrawn'; return; end if;
  if c.state in ('ended', 'lost') or c.request_id <> p_request then denied := 'ended'; return; end if;
  if c.state = 'claimed' then
    -- The same grant asked again (its answer was lost) gets the same fence.
    if c.worker_id <> p_worker or c.grant_id <> p_grant then denied := 'held'; return; end if;
    granted := c;
  end if;

  -- What the call is to do comes along: it was committed before anybody could ask, and saves a round trip.
  select r.detail_json, r.written_at into prepared_json, prepared_at from flow_calls r
   where r.call_id = p_call and r.attempt = c.attempt and r.event = 'prepared' order by r.seq desc limit 1;
  if c.state = 'claimed' then return; end if;

  select r.stop, r.state, r.format, r.host_label into run from flow_runs r where r.run_id = c.run_id;
  if run.format > worker.version then denied := 'version'; return; end if;
  if c.state = 'stranded' then
    -- Only its own host can look up what was sent; it may always, so that a stopping run comes to its end.
    if c.sent_host <> worker.host then denied := 'other_host'; return; end if;
  else
    if c.pin_host is not null and c.pin_host <> worker.host then denied := 'other_host'; return; end if;
    if run.stop is not null or run.state not in ('running', 'queued') then denied := 'stopping'; return; end if;
    if run.host_label is not null and not run.host_label = any(worker.labels) then denied := 'labels'; return; end if;
    if worker.free_bytes < worker.min_free_bytes then denied := 'disk'; return; end if;
  end if;

  if c.node_id is not null then
    select p.host into placed from node_placements p
     where p.run_id = c.run_id and p.node_id = c.node_id for no key update;
    if not found and worker.state <> 'draining' then
      insert into node_placements (run_id, node_id, host, made_by_call)
      values (c.run_id, c.node_id, worker.host, c.call_id) on conflict do nothing;
      -- Somebody else's placement won the race: this statement sees it and locks it.
      select p.host into placed from node_placements p
       where p.run_id = c.run_id and p.node_id = c.node_id for no key update;
    end if;
    if placed is null and worker.state <> 'draining' then
      update node_placements p set host = worker.host, generation = p.generation + 1, made_by_call = c.call_id,
        used = false where p.run_id = c.run_id and p.node_id = c.node_id;
    elsif placed <> worker.host and c.state = 'open' then
      update outbox b set not_before = now() where b.call_id = c.call_id;
      denied := 'placed_elsewhere';
      return;
    end if;
  end if;
  if worker.state = 'draining' and c.state = 'open' and c.pin_host is null
     and (c.node_id is null or placed is distinct from worker.host) then
    denied := 'draining';
    return;
  end if;

  update call_claims k set state = 'claimed', worker_id = p_worker, grant_id = p_grant, claimed_at = clock_timestamp(),
    fence = k.fence + 1, rows_written = 0 where k.call_id = p_call returning k.* into granted;
  delete from outbox b where b.call_id = p_call;
end
$crw$;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(CLAIM)
