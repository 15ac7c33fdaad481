"""Which App Servers a host has had, and what its account has left: what ops look at beside the worker.

Written by the host's worker as an observation: no call waits for these rows, and none is judged by them.
Source: definition of host-side records.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"

TABLES = """
create table server_generations (
  generation text primary key, host text not null references farm_hosts,
  worker_id text not null references farm_workers, pid integer not null, pid_started text not null,
  boot_id text not null, codex_path text not null, codex_version text not null,
  state text not null check (state in ('up', 'ended')), started_at timestamptz not null,
  ended_at timestamptz, reason text);
create index generations_of_host on server_generations (host, started_at);
create table host_limits (
  host text not null references farm_hosts, limit_id text not null, used_percent double precision not null,
  window_minutes integer, resets_at timestamptz, observed_at timestamptz not null, primary key (host, limit_id));
grant select, insert, update, delete on server_generations, host_limits to crw_app;
"""


def upgrade() -> None:
    op.execute(TABLES)
