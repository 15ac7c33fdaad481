"""A draining host goes on with a conversation of no node only while no other host could.

Such a conversation has no placement that could be taken from it: its next call is pinned
to the host that has the thread. When that call waits, nothing of the conversation is at
work, so it goes to another host, in a checkpoint thread. A call that goes on in place
behind a hold stays: its turns and files are here, and no `prepared` row opens its attempt.
Changed from what stands in the database, so that what other steps gave the function stays.
Source: rules of the protocol, 12 and 43.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

_BEFORE = "(case when c.node_id is null then c.pin_host is null else placed is distinct from worker.host end) then"
_AFTER = """(case when c.node_id is not null then placed is distinct from worker.host
       else c.pin_host is null or (exists (
         select 1 from flow_calls r where r.call_id = p_call and r.attempt = c.attempt and r.event = 'prepared')
        and exists (
         select 1 from farm_workers w join farm_hosts h on h.host = w.host
          where h.state = 'up' and w.state = 'up' and w.lease_until > clock_timestamp() and w.version >= run.format
            and coalesce(w.free_bytes, w.min_free_bytes) >= w.min_free_bytes
            and (run.host_label is null or run.host_label = any(w.labels)))) end) then"""


# A host that removes the threads of an old run asks which runs were forked from it.
_INDEX = "create index flow_runs_forks on flow_runs (resumes_run) where resumes_run is not null"


def upgrade() -> None:
    op.execute(_INDEX)
    connection = op.get_bind()
    definition = connection.exec_driver_sql("select pg_get_functiondef('crw_claim'::regproc)").scalar_one()
    assert definition.count(_BEFORE) == 1
    # On the bare cursor: a function's text may have percent signs, and no parameters are meant by them.
    connection.connection.cursor().execute(definition.replace(_BEFORE, _AFTER))
