"""A draining host goes on with a conversation only where it has the node; hosts say what runs take on their disks.

A call that continues a thread is pinned to the host that has it. Once its node was
moved away, a draining host must not take it back: it goes to another one, in a
checkpoint thread. Changed from what stands in the database, so that what other steps
gave the function stays.
Source: rules of the protocol, 12, 39 and 43.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

TABLES = """
alter table farm_hosts add column run_bytes bigint, add column run_bytes_at timestamptz;
alter table flow_runs add column hub_cleaned_at timestamptz;
grant update (hub_cleaned_at) on flow_runs to crw_app;
"""

_BEFORE = """c.state = 'open' and c.pin_host is null
     and (c.node_id is null or placed is distinct from worker.host) then"""
_AFTER = """c.state = 'open'
     and (case when c.node_id is null then c.pin_host is null else placed is distinct from worker.host end) then"""


def upgrade() -> None:
    op.execute(TABLES)
    connection = op.get_bind()
    definition = connection.exec_driver_sql("select pg_get_functiondef('crw_claim'::regproc)").scalar_one()
    assert definition.count(_BEFORE) == 1
    # On the bare cursor: a function's text may have percent signs, and no parameters are meant by them.
    connection.connection.cursor().execute(definition.replace(_BEFORE, _AFTER))
