"""Who removes what an ended run left, and when that was begun last: a run is not opened again meanwhile.

Whoever removes writes a row here before anything goes, under the lock of the run. A row
holds for a while from its last sign of life, and not beyond the death of its worker, so
that a remover that dies keeps nobody from the run for ever.
Source: rules of the protocol, 39.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"

TABLES = """
create table run_cleaners (
  cleaner text primary key, run_id text not null references flow_runs, place text not null,
  worker_id text references farm_workers, began_at timestamptz not null default clock_timestamp(),
  held_until timestamptz not null);
create index cleaners_of_run on run_cleaners (run_id);
alter table flow_runs add column cleaned_at timestamptz;
grant select, insert, update, delete on run_cleaners to crw_app;
grant update (cleaned_at) on flow_runs to crw_app;
"""


def upgrade() -> None:
    op.execute(TABLES)
