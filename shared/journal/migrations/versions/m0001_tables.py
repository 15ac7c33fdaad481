"""The tables of the journal, of the claims and of the farm.

What an append changes is not indexed (`next_seq`, `sched_rows`, `turns_sent`), so
that the hot row of a run stays HOT; rows name their run without a foreign key,
because the append that writes them has that run's row locked.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

RUNS = """
create table farm_meta (
  one boolean primary key default true check (one),
  schema_version integer not null, min_writer integer not null,
  system_id text not null, timeline integer not null);

create table farm_hosts (
  host text primary key, state text not null default 'up' check (state in ('up', 'draining', 'lost')),
  host_id text not null, home_id text, machine text not null, account text, labels text[] not null default '{}',
  registered_at timestamptz not null default now());

create table farm_workers (
  worker_id text primary key, host text not null references farm_hosts,
  state text not null check (state in ('up', 'draining', 'dead', 'stopped')),
  beat bigint not null default 0, lease_until timestamptz not null, lease_seconds double precision not null,
  pid integer not null, pid_started text not null, boot_id text not null, home_id text, machine text not null,
  labels text[] not null default '{}', slots integer not null, version integer not null, codex_version text,
  free_bytes bigint, min_free_bytes bigint not null default 0,
  started_at timestamptz not null default now()) with (fillfactor = 50);
create unique index one_live_worker_a_host on farm_workers (host) where state in ('up', 'draining');

create table farm_schedulers (
  scheduler_id text primary key, state text not null check (state in ('up', 'draining', 'dead', 'stopped')),
  beat bigint not null default 0, lease_until timestamptz not null, lease_seconds double precision not null,
  machine text not null, pid integer not null, version integer not null,
  started_at timestamptz not null default now()) with (fillfactor = 50);

create table flow_runs (
  run_id text primary key, run_key text unique, workflow text not null, spec_digest text not null,
  script_digest text not null, helpers_digest text not null, args_digest text not null,
  plan_id text, plan_revision integer, actor_task text, epoch_nonce text, resumes_run text,
  host_label text, max_turns integer, format integer not null, submitted_at timestamptz not null default now(),
  state text not null default 'queued' check (state in ('queued', 'running', 'paused', 'quarantined', 'ended')),
  stop text check (stop in ('pause', 'cancel')), scheduler_id text references farm_schedulers,
  lease_epoch integer not null default 0, takes_without_progress integer not null default 0,
  next_seq bigint not null default 1 check (next_seq between 1 and 1099511627775),
  sched_rows bigint not null default 0, turns_sent integer not null default 0,
  next_foreign_seq bigint not null default 1099511627776, ended_at timestamptz,
  constraint running_has_a_scheduler check (state <> 'running' or scheduler_id is not null)) with (fillfactor = 30);
create index runs_to_take on flow_runs (submitted_at) where state in ('queued', 'running');
create index runs_of_scheduler on flow_runs (scheduler_id) where state = 'running';

create table flow_specs (run_id text primary key references flow_runs, spec_json text not null);
create table flow_sources (digest text primary key, bytes bytea not null);
create table flow_results (digest text primary key, bytes bytea not null);
create table artifacts (
  digest text primary key, media_type text not null, bytes bytea not null,
  written_at timestamptz not null default now());
"""

ROWS = """
create table flow_calls (
  run_id text not null, seq bigint not null check (seq >= 1), call_id text not null, path text not null,
  position integer not null, attempt integer not null, kind text not null, event text not null,
  terminal boolean not null, fence bigint, request_id text not null, node_id text, role text, label text,
  plan_id text, execution_id text, commit_sha text, thread_id text, turn_id text, operation text,
  worktree_kind text, worktree_path text, start_commit text, allocation integer, pending_tree text, held_tree text,
  snapshot_digest text, input_state text, tokens bigint, result_bytes bigint, result_digest text,
  result bytea, result_ref text, host text, written_at timestamptz not null, writer integer not null,
  detail_json text not null, primary key (run_id, seq),
  constraint result_in_one_place check (result is null or result_ref is null));
create index calls_by_call on flow_calls (call_id, seq);
create index calls_by_node on flow_calls (run_id, node_id, seq) where node_id is not null;
create unique index one_terminal_an_attempt on flow_calls (call_id, attempt) where terminal;

create table flow_events (
  run_id text not null, seq bigint not null check (seq >= 1), kind text not null, path text, position integer,
  op text, label text, written_at timestamptz not null, writer integer not null, payload_json text not null,
  primary key (run_id, seq));
"""

CLAIMS = """
create table call_claims (
  call_id text primary key, run_id text not null, node_id text, path text not null, position integer not null,
  kind text not null, role text, label text, effect text not null check (effect in ('executor', 'reader', 'op')),
  request_id text not null, attempt integer not null default 0,
  state text not null check (state in ('open', 'claimed', 'stranded', 'lost', 'withdrawn', 'ended')),
  fence bigint not null default 0, grant_id text, worker_id text references farm_workers,
  rows_written integer not null default 0, sent boolean not null default false,
  sent_host text references farm_hosts, pin_host text references farm_hosts, crashes integer not null default 0,
  opened_at timestamptz not null default now(), claimed_at timestamptz, deadline_seconds double precision,
  constraint claimed_has_a_holder check ((state = 'claimed') = (worker_id is not null and grant_id is not null)),
  constraint sent_has_a_host check (not sent or sent_host is not null),
  constraint stranded_has_sent check (state <> 'stranded' or sent)) with (fillfactor = 50);
create index claims_of_worker on call_claims (worker_id) where state = 'claimed';
create index claims_of_run on call_claims (run_id) where state in ('open', 'claimed', 'stranded', 'lost');
create index claims_stranded on call_claims (sent_host) where state = 'stranded';

create table node_placements (
  run_id text not null, node_id text not null, host text references farm_hosts,
  generation integer not null default 1, made_by_call text not null, used boolean not null default false,
  primary key (run_id, node_id));
create index placements_of_host on node_placements (host) where host is not null;

create table outbox (
  call_id text primary key, run_id text not null, request_id text not null,
  not_before timestamptz not null, tries integer not null) with (fillfactor = 70);
create index outbox_due on outbox (not_before);

create unlogged table call_progress (
  call_id text primary key, run_id text not null, fence bigint not null, turn text, message text, command text,
  tokens bigint, seconds double precision, seen_at timestamptz not null default now()) with (fillfactor = 50);
create index progress_of_run on call_progress (run_id);
"""


def upgrade() -> None:
    for script in (RUNS, ROWS, CLAIMS):
        op.execute(script)
