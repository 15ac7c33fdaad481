"""Who may do what: rows are inserted and read, never updated; a run's identity is never updated.

`crw_app` is a group: the database's administrator makes it (or lets the owner make
it) and grants it to the logins of the farm's processes. The time limits stand on
the database, because a pooler drops start-up parameters: a client that freezes
inside a transaction must not hold its locks for ever (rules of the protocol 30).
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

RIGHTS = """
do $crw$
begin
  if not exists (select 1 from pg_roles where rolname = 'crw_app') then
    create role crw_app nologin;
  end if;
exception when duplicate_object or unique_violation then null;  -- roles belong to the whole server: another upgrade won
end
$crw$;

grant usage on schema public to crw_app;
grant select, insert on flow_calls, flow_events, flow_specs, flow_sources, flow_results, artifacts to crw_app;
grant select on farm_meta, alembic_version to crw_app;
grant select, insert on flow_runs to crw_app;
grant update (state, stop, scheduler_id, lease_epoch, takes_without_progress, next_seq, sched_rows, turns_sent,
  next_foreign_seq, ended_at) on flow_runs to crw_app;
grant select, insert, update, delete on farm_hosts, farm_workers, farm_schedulers, call_claims, node_placements,
  outbox, call_progress to crw_app;

do $crw$
begin
  execute format('alter database %I set idle_in_transaction_session_timeout = %L', current_database(), '5s');
  execute format('alter database %I set lock_timeout = %L', current_database(), '10s');
  execute format('alter database %I set statement_timeout = %L', current_database(), '60s');
  execute format('alter database %I set default_transaction_isolation = %L', current_database(), 'read committed');
end
$crw$;
"""


def upgrade() -> None:
    op.get_bind().connection.cursor().execute(RIGHTS)
