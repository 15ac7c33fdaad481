"""Statements of the journal writer and of the claim, on psycopg2's own cursors: the hot path."""

from __future__ import annotations

# Locks: claims (by call id), placements, runs (by run id), outbox; see the migration that makes the function.
APPEND = """
select * from crw_append(
  %(host)s, %(writer)s, %(claimed)s, %(claims)s::crw_claim_part[], %(runs)s::crw_run_part[], %(uses)s::text[],
  %(withdraw)s, %(rows)s::crw_call_row[], %(events)s::crw_event_row[], %(opens)s::crw_open_part[],
  string_to_array(%(details)s, E'\\n'), %(results)s::bytea[])
"""

# Locks nothing: why a group was not written, member by member: (verdict, the right's count of rows).
JUDGE = "select crw_judge(%(members)s, %(opens)s, %(rows)s)"

# Locks nothing: after a lost answer, the numbers of the rows that one fence wrote.
STORED_BY_CLAIM = "select seq from flow_calls where call_id = %(call)s and fence = %(fence)s order by seq"

# Locks nothing: after a lost answer, the newest rows of the scheduler's side; its rows of calls have no fence.
STORED_BY_LEASE = """
select seq from (
  (select seq from flow_calls where run_id = %(run)s and fence is null and seq < 1099511627776
    order by seq desc limit %(limit)s)
  union all
  (select seq from flow_events where run_id = %(run)s and seq < 1099511627776 order by seq desc limit %(limit)s)) s
order by seq desc limit %(limit)s
"""

# Locks: the worker's row FOR SHARE, the claims by call id, the placements, the outbox rows; see the migrations.
CLAIM = """
select denied, (granted).run_id, (granted).node_id, (granted).kind, (granted).effect, (granted).path,
  (granted).position, (granted).attempt, (granted).fence, (granted).sent, (granted).sent_host, (granted).crashes,
  (granted).deadline_seconds, (granted).rows_written, (granted).role, (granted).label,
  (granted).stop, prepared_json, prepared_at
from crw_claims(%(worker)s, %(writer)s, %(calls)s::text[], %(requests)s::text[], %(grants)s::text[]) order by k
"""
