"""Statements of the questions to hosts, and of what an answer writes."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks: nothing. Asking twice before there is an answer gives the same question: its id is the lowest of them.
def ask() -> TextClause:
    """Insert a question to a host unless the same one is open; its id."""
    return text("""
        with open as (
          select question_id from host_questions
          where host = :host and kind = :kind and run_id = :run and call_id is not distinct from :call
            and (cast(:epoch as integer) is null or epoch = :epoch)
            and answered_at is null order by asked_at limit 1
        ), made as (
          insert into host_questions (question_id, host, kind, run_id, call_id, epoch)
          select :question, :host, :kind, :run, :call, coalesce(cast(:epoch as integer), r.lease_epoch) from flow_runs r
          where r.run_id = :run and not exists (select 1 from open) returning question_id)
        select question_id from open union all select question_id from made""")


# Locks nothing: one worker a host, and it answers one after the other.
def open_questions() -> TextClause:
    """What a host has not answered, the oldest first."""
    return text("""
        select question_id, host, kind, run_id, call_id, epoch from host_questions
        where host = :host and answered_at is null order by asked_at limit :limit""")


# Locks nothing.
def load_answer() -> TextClause:
    """The answer to a question; null while there is none."""
    return text("select answer_json from host_questions where question_id = :question")


# Locks: the question. Only a live worker of the host answers, and a question is answered once.
def answer() -> TextClause:
    """Store an answer."""
    return text("""
        update host_questions q set answer_json = :answer, answered_at = clock_timestamp(), answered_by = :worker
        from farm_workers w where q.question_id = :question and q.answered_at is null
          and w.worker_id = :worker and w.host = q.host and w.state in ('up', 'draining') returning q.question_id""")


# Locks: the worker's row FOR SHARE, first as in a claim: "this worker is dead" and this exclude each other.
def worker_to_recover() -> TextClause:
    """Lock a live worker's row against being buried."""
    return text("""
        select worker_id from farm_workers where worker_id = :worker and state in ('up', 'draining') for share""")


# Locks: the host's row FOR SHARE, first: it does not come back with what it had while this is written.
def host_given_up() -> TextClause:
    """Lock a host that was given up since a worker of it: it is lost, or its name has another home now."""
    return text("""
        select h.host from farm_hosts h where h.host = :host and (h.state = 'lost' or exists (
          select 1 from farm_workers w where w.worker_id = :worker and w.host = h.host
            and w.home_id is distinct from h.home_id)) for share of h""")


# Locks: the claim; attempt and fence in the WHERE of the locking statement.
def claim_to_recover() -> TextClause:
    """Lock the claim of a call that ended at this attempt."""
    return text("""
        select call_id, request_id, run_id, node_id, kind, effect, path, position, attempt, fence, role, label,
          sent, sent_host, crashes, deadline_seconds
        from call_claims where call_id = :call and state = 'ended' and attempt = :attempt for no key update""")


# Locks nothing.
def taken_back() -> TextClause:
    """Whether this attempt of a call was superseded."""
    return text("""
        select seq from flow_calls where call_id = :call and attempt = :attempt and event = 'superseded'""")


# Locks: the run's row. A run that a scheduler drives, or may take at any moment, has the right to its rows.
def run_to_recover() -> TextClause:
    """Lock a run that nobody drives; its next number, and when it was cleaned last."""
    return text("""
        select next_seq, cleaned_at from flow_runs where run_id = :run and state in ('ended', 'paused', 'quarantined')
        for no key update""")


# Locks: nothing new: claim and run are locked.
def reopen_claim() -> TextClause:
    """One more attempt in place, which ends with the rows of this transaction."""
    return text("""
        update call_claims set attempt = attempt + 1, fence = fence + 1, rows_written = :rows where call_id = :call""")


# Locks: nothing new.
def count_rows() -> TextClause:
    """Give a run's next numbers away."""
    return text("update flow_runs set next_seq = next_seq + :rows where run_id = :run")


# Locks nothing.
def claim_of() -> TextClause:
    """The claim of a call, whatever its state."""
    return text("""
        select call_id, request_id, run_id, node_id, kind, effect, path, position, attempt, fence, role, label,
          sent, sent_host, crashes, deadline_seconds from call_claims where call_id = :call""")


# Locks nothing.
def hosts_of_run() -> TextClause:
    """The hosts on which nodes of a run lie."""
    return text("select distinct host from node_placements where run_id = :run and host is not null order by host")


# Locks nothing. A home that was lost or wiped is another one, whatever path it had.
def workers_of_other_homes() -> TextClause:
    """The workers a host's name has had in other homes than the one it has now."""
    return text("""
        select w.worker_id from farm_workers w join farm_hosts h on h.host = w.host
        where h.host = :host and w.home_id is distinct from h.home_id""")


# Locks nothing.
def host_standing() -> TextClause:
    """Whether a host was given up, whether its worker lives, and whether its home is another than a worker's was."""
    return text("""
        select h.state, exists (select 1 from farm_workers w where w.host = h.host and w.state in ('up', 'draining')
          and w.lease_until > clock_timestamp()) as alive, exists (select 1 from farm_workers w
          where w.worker_id = :worker and w.host = h.host and w.home_id is distinct from h.home_id) as moved
        from farm_hosts h where h.host = :host""")
