"""Statements that store a run whose journal begins with rows of another."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks: the new row. Its identity is the other run's, with a name of its own and the ancestor's.
def forked_run() -> TextClause:
    """Insert the run; nothing when its key is taken."""
    return text("""
        insert into flow_runs (run_id, run_key, workflow, spec_digest, script_digest, helpers_digest, args_digest,
          resumes_run, host_label, max_turns, format, next_seq)
        select :new, :key, workflow, spec_digest, script_digest, helpers_digest, args_digest, run_id, host_label,
          max_turns, format, :next_seq from flow_runs where run_id = :old
        on conflict do nothing returning run_id""")


# Locks: the new row.
def forked_spec() -> TextClause:
    """The new run's spec is the other's."""
    return text("""
        insert into flow_specs (run_id, spec_json) select :new, spec_json from flow_specs where run_id = :old""")


# Locks: the new row.
def forked_row() -> TextClause:
    """The new run's first row: where the others come from."""
    return text("""
        insert into flow_events (run_id, seq, kind, written_at, writer, payload_json)
        values (:new, 1, 'forked', clock_timestamp(), :writer, :payload)""")


# Locks: the new rows. Nobody is granted an ended claim; a next attempt of the call opens it again.
def forked_claims() -> TextClause:
    """The claims of the copied calls, ended at the attempt that their newest copied row is of."""
    return text("""
        insert into call_claims (call_id, run_id, node_id, path, position, kind, role, label, effect, request_id,
          attempt, state, fence, opened_at)
        select m.new_call, :new, c.node_id, c.path, c.position, c.kind, c.role, c.label, c.effect, m.request,
          m.attempt, 'ended', c.fence, c.opened_at
        from unnest(cast(:calls as text[]), cast(:new_calls as text[]), cast(:requests as text[]),
          cast(:attempts as integer[])) m(call, new_call, request, attempt) join call_claims c on c.call_id = m.call""")


# Locks nothing: the run is locked against whoever begins to remove.
def cleaned_at() -> TextClause:
    """When somebody last began to remove what a run left."""
    return text("select cleaned_at from flow_runs where run_id = :run")


# Locks nothing.
def run_of_key() -> TextClause:
    """The run that has a key, which run it was forked from, and its first row."""
    return text("""
        select r.run_id, r.resumes_run, (select e.payload_json from flow_events e where e.run_id = r.run_id
          and e.seq = 1 and e.kind = 'forked') as forked from flow_runs r where r.run_key = :key""")
