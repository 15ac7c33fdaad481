"""A run ends its lost calls: `crw_append` closes the claim with the row.

A claim that is `lost` has no holder any more and gets none: its fence was raised when
its host was given up. The run's own row about the call, under the run's lease, is
the last word, and the claim ends in the same transaction.
Source: rules of the protocol, 27; design of the farm, "Hosts, placement and loss".
"""

from __future__ import annotations

from alembic import op

from shared.journal.migrations.versions.m0002_append import APPEND

revision = "0005"
down_revision = "0004"

_ANCHOR = "  if p_opens is not null then\n    insert into call_claims"
_END_LOST = """\
  -- Rows of calls without a worker: an entry without a fence and without an attempt that is opened.
  update call_claims c set state = 'ended'
    from json_to_recordset(p_claims) as m(call text, fence bigint, attempt integer)
   where c.call_id = m.call and m.fence is null and m.attempt is null and c.state = 'lost';

"""


def upgrade() -> None:
    assert APPEND.count(_ANCHOR) == 1
    changed = APPEND.replace("create function", "create or replace function").replace(_ANCHOR, _END_LOST + _ANCHOR)
    op.get_bind().exec_driver_sql(changed)
