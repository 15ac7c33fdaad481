"""Statements of the readers, for psycopg2's own cursors: the hot path. They lock nothing and create nothing.

All give the same columns in the same order: `is_event`, `op`, those of `COLUMNS`,
`detail_json`, `result`, `result_ref`. A large result is fetched by its ref apart:
it never changes, and a sub-select for it costs every page more than the page.
"""

from __future__ import annotations

# A run's own rows stay below; commands that write into a live run number from here (rules of the protocol 44).
FOREIGN_SEQ_BASE = 1 << 40

COLUMNS = (
    "run_id", "seq", "call_id", "path", "position", "attempt", "kind", "event", "fence", "request_id", "node_id",
    "role", "label", "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path",
    "start_commit", "allocation", "pending_tree", "held_tree", "snapshot_digest", "input_state", "tokens",
    "result_bytes", "result_digest", "host", "written_at",
)  # fmt: skip
_LEAN_COLUMNS = ", ".join(f"c.{name}" for name in COLUMNS)
_RESULT = "c.result, c.result_ref"
_LEAN = "null::bytea, null::text"


# Rows of a run after a seq, in order; see the migration that makes the function.
PAGE = f"""
        select is_event, op, {", ".join(f'"{name}"' for name in COLUMNS)}, detail_json, result, result_ref
        from crw_page(%(run)s, %(after)s, %(limit)s, %(results)s)"""

SMALL_RESULT_BYTES = 2048
LARGE_DETAIL_BYTES = 16384
# What a resume reads of them: with the results that are small, the others are read when they are needed; without the
# data of calls that ask at length, which are read a few at a time; up to the first gap; and without what was seen on
# the way to a completed end that names thread, turn, tokens and host itself: no decision and no result rests on these.
# The last row of a full page is always there. A sub-select with a limit is looked up row by row, never hashed.
PAGE_SLIM = f"""
        select is_event, op, {", ".join(f'"{name}"' for name in COLUMNS)},
          case when is_event or "event" <> 'prepared' or octet_length(detail_json) <= {LARGE_DETAIL_BYTES}
            then detail_json end,
          case when octet_length(result) <= {SMALL_RESULT_BYTES} then result end, null::text
        from (select g.*, row_number() over (order by g.seq) as number
          from crw_page(%(run)s, %(after)s, %(limit)s, true) g) p
        where p.seq = %(after)s + p.number and (p.is_event or p.number = %(limit)s
          or p."event" not in ('turn_started', 'user_message_seen', 'turn_ended', 'push_requested', 'command_started',
            'command_ended')
          or (select true from flow_calls t where t.call_id = p.call_id and t.attempt = p.attempt and t.terminal
            and t.event = 'completed' and t.host is not null and (t.kind <> 'agent'
              or (t.thread_id is not null and t.turn_id is not null and t.tokens is not null)) limit 1) is null)
        order by p.seq"""

# The results of some rows of a run.
RESULTS = """
        select seq, result, result_ref from flow_calls where run_id = %(run)s and seq = any(%(seqs)s)"""

# The data of some rows of a run.
DETAILS = """
        select seq, detail_json from flow_calls where run_id = %(run)s and seq = any(%(seqs)s)"""

# All rows of a call, with results.
CALL_ROWS = f"""
        select false, null, {_LEAN_COLUMNS}, c.detail_json, {_RESULT} from flow_calls c
        where c.call_id = %(call)s order by c.seq"""

# What decides a node's worktree: where it was placed or restored, what its executor calls and commits ended as.
NODE_ROWS = f"""
        select false, null, {_LEAN_COLUMNS}, c.detail_json, {_LEAN} from flow_calls c
        where c.run_id = %(run)s and c.node_id = %(node)s and (c.event in ('placed', 'worktree_restored')
          or (c.terminal and (c.kind = 'commit' or exists (
            select 1 from call_claims k where k.call_id = c.call_id and k.effect = 'executor'))))
        order by c.seq"""

# What the proofs of a run read, behind a seq: how its executor calls and commits began, were placed and ended, what
# its integrations ended as, and which other agents are held. A prepared row only says that a further attempt began, or
# that one is open: its prompt stays where it is, and that of a call that ended at once is not needed.
EFFECT_ROWS = f"""
        select false, null, {_LEAN_COLUMNS}, case c.event when 'prepared' then '{{}}' else c.detail_json end, {_LEAN}
        from flow_calls c left join call_claims k on k.call_id = c.call_id
        where c.run_id = %(run)s and c.seq > %(after)s and c.seq < {FOREIGN_SEQ_BASE}
          and ((c.node_id is not null and (c.kind = 'commit' or k.effect = 'executor')
                and (c.terminal or c.event in ('placed', 'hold_cleared')
                  or (c.event = 'prepared' and (c.attempt > 0 or k.state is distinct from 'ended'))))
            or (c.kind = 'integrate' and c.terminal) or (c.kind = 'agent' and c.event = 'held'))
        order by c.seq"""

# The directories that ended calls owned: named on terminal rows; which host has one is not recorded there.
OWN_DIRECTORIES = """
        select c.call_id, c.detail_json from flow_calls c
        where c.run_id = %(run)s and c.terminal and c.detail_json like '%%"own_directory"%%' order by c.seq"""
