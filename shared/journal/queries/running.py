"""Statements about runs: submit, take, stop, give back, look. None of them names an identity column in an UPDATE."""

from __future__ import annotations

from sqlalchemy import TextClause, text

_STATE = """run_id, run_key, workflow, state, stop, scheduler_id, lease_epoch, next_seq, max_turns, turns_sent,
  host_label, takes_without_progress, submitted_at, ended_at, resumes, cleaned_at"""


# Locks: the new rows, in the order given; a second submit of a key waits for the first and then finds its run.
def new_runs() -> TextClause:
    """Insert runs; one whose key is taken is left out."""
    return text("""
        insert into flow_runs (run_id, run_key, workflow, spec_digest, script_digest, helpers_digest, args_digest,
          host_label, max_turns, format)
        select * from unnest(cast(:run_ids as text[]), cast(:keys as text[]), cast(:workflows as text[]),
          cast(:spec_digests as text[]), cast(:script_digests as text[]), cast(:helpers_digests as text[]),
          cast(:args_digests as text[]), cast(:labels as text[]), cast(:max_turns as integer[]),
          cast(:formats as integer[]))
        on conflict do nothing returning run_id""")


# Locks: the new rows.
def new_specs() -> TextClause:
    """Insert the specs of new runs."""
    return text("""
        insert into flow_specs (run_id, spec_json)
        select * from unnest(cast(:run_ids as text[]), cast(:specs as text[])) on conflict do nothing""")


# Locks nothing.
def runs_of_keys() -> TextClause:
    """The runs that these keys belong to."""
    return text("""
        select r.run_key, r.run_id, r.spec_digest, s.spec_json
        from flow_runs r join flow_specs s on s.run_id = r.run_id where r.run_key = any(:keys)""")


# Locks: the taker's own row FOR SHARE: a take and "this scheduler is dead" exclude each other.
def taker() -> TextClause:
    """Lock the scheduler that takes runs."""
    return text("""
        select s.version, m.min_writer from farm_schedulers s cross join farm_meta m
        where s.scheduler_id = :scheduler and s.state = 'up' for share of s""")


# Locks: runs, SKIP LOCKED; their state is in the WHERE of the locking statement. That a scheduler is dead or stopped
# is read without a lock: it never comes back from that.
def runs_to_take() -> TextClause:
    """Lock runs that nobody drives: queued, their scheduler dead or stopped, or the taker's own without its knowing."""
    return text("""
        select q.run_id, q.state, q.stop, q.takes_without_progress,
          q.state = 'running' and exists (select 1 from farm_schedulers s
            where s.scheduler_id = q.scheduler_id and s.state = 'dead') as of_dead
        from flow_runs q
        where (q.state = 'queued' or (q.state = 'running' and exists (
            select 1 from farm_schedulers s where s.scheduler_id = q.scheduler_id and s.state in ('dead', 'stopped')))
            or (q.state = 'running' and q.scheduler_id = :scheduler and q.stop is distinct from 'pause'
              and q.run_id <> all(cast(:driven as text[]))))
          and q.format <= :version
        order by q.submitted_at limit :limit for no key update of q skip locked""")


# Locks: nothing new; the run is locked.
def take_run() -> TextClause:
    """Give a locked run to a scheduler under a new epoch."""
    return text("""
        update flow_runs set scheduler_id = :scheduler, lease_epoch = lease_epoch + 1, state = 'running',
          takes_without_progress = :takes where run_id = :run
        returning run_id, lease_epoch, sched_rows, stop, resumes""")


# Locks: the run; the epoch is in the WHERE of that statement, so that of two takers one finds it.
def take_stopped_run() -> TextClause:
    """Give a cancelled run that nobody drives to whoever ends it: its scheduler is none, gone or silent."""
    return text("""
        update flow_runs r set scheduler_id = :scheduler, lease_epoch = r.lease_epoch + 1, state = 'running'
        where r.run_id = :run and r.lease_epoch = :epoch and r.stop = 'cancel' and r.state <> 'ended'
          and r.format <= :version
          and (r.state <> 'running' or not exists (select 1 from farm_schedulers s where s.scheduler_id = r.scheduler_id
            and s.state in ('up', 'draining') and s.lease_until > clock_timestamp()))
        returning r.run_id, r.lease_epoch, r.sched_rows""")


# Locks: the run; the lease it is handed over from is in the WHERE. A take that was stored and whose answer was lost is
# found again by the taker's own name.
def take_handed_run() -> TextClause:
    """Give a run from one scheduler to another under a new epoch."""
    return text("""
        update flow_runs set scheduler_id = :scheduler,
          lease_epoch = case when scheduler_id = :scheduler then lease_epoch else lease_epoch + 1 end
        where run_id = :run and state = 'running' and format <= :version
          and ((scheduler_id = :holder and lease_epoch = :epoch)
          or (scheduler_id = :scheduler and lease_epoch = :epoch + 1))
        returning run_id, lease_epoch, sched_rows, stop, takes_without_progress, resumes""")


# Locks: nothing new; the run is locked.
def quarantine_run() -> TextClause:
    """Put a locked run aside: taken over and over without progress."""
    return text("""
        update flow_runs set scheduler_id = null, lease_epoch = lease_epoch + 1, state = 'quarantined',
          takes_without_progress = :takes where run_id = :run""")


# Locks: the scheduler's row.
def stop_scheduler() -> TextClause:
    """Mark a scheduler that ends in order."""
    return text("""
        update farm_schedulers set state = 'stopped' where scheduler_id = :scheduler and state in ('up', 'draining')""")


# Locks: its runs, by run id.
def runs_to_give_back() -> TextClause:
    """Lock the runs of a scheduler."""
    return text("""
        select run_id from flow_runs where scheduler_id = :scheduler and state = 'running'
        order by run_id for no key update""")


def queue_runs() -> TextClause:
    """Make locked runs free to be taken."""
    return text("update flow_runs set state = 'queued', scheduler_id = null where run_id = any(:runs)")


# Locks: the run; the lease is in the WHERE of that statement.
def let_go_run() -> TextClause:
    """Make one run free to be taken, if it is still driven under this lease."""
    return text("""
        update flow_runs set state = 'queued', scheduler_id = null,
          takes_without_progress = takes_without_progress + :broke
        where run_id = :run and scheduler_id = :scheduler and lease_epoch = :epoch and state = 'running'""")


# Locks: the run. From its commit on no intent of the run can commit, wherever its scheduler is. Cancel beats pause.
def stop_run() -> TextClause:
    """Set `stop` on a run that has not ended."""
    return text("""
        update flow_runs set stop = case when stop = 'cancel' then stop else :how end
        where run_id = :run and state <> 'ended' returning state, stop, scheduler_id""")


# Locks: the run; that nobody drives it, and that nobody resumed it since it was looked at, stand in the WHERE of that
# statement. A pause lets go of a run that its scheduler still has: the free lease shuts that one out.
def reopen_run() -> TextClause:
    """Queue a run that ended, was set aside or was paused, and note that a resume was asked for."""
    return text("""
        update flow_runs set state = 'queued', stop = null, scheduler_id = null, ended_at = null,
          takes_without_progress = 0, resumes = resumes + 1
        where run_id = :run and resumes = :before and cleaned_at is not distinct from cast(:cleaned as timestamptz)
          and (state = 'ended' or stop = 'pause' or (state in ('quarantined', 'paused') and stop is null))
        returning run_id, plan_id, plan_revision, actor_task, epoch_nonce, resumes_run, next_seq""")


# Locks nothing: one statement a process, one row lookup a run.
def poll_runs() -> TextClause:
    """Which of these runs have rows beyond the one seen, or a stop."""
    return text("""
        select r.run_id, r.next_seq, r.stop
        from unnest(cast(:runs as text[]), cast(:seen as bigint[])) m(run_id, seen)
          join flow_runs r on r.run_id = m.run_id
        where r.next_seq > m.seen + 1 or r.stop is not null""")


# Locks nothing.
def run_state() -> TextClause:
    """A run's counters and lease."""
    return text(f"select {_STATE} from flow_runs where run_id = :run")


# Locks nothing. The end row is the run's last: it is looked up by its number.
def list_runs() -> TextClause:
    """Runs, newest first, with their last row where they ended."""
    return text(f"""
        select {_STATE}, (select e.payload_json from flow_events e
            where r.state = 'ended' and e.run_id = r.run_id and e.seq = r.next_seq - 1) as end_json
        from flow_runs r where cast(:state as text) is null or r.state = :state
        order by r.submitted_at desc, r.run_id limit :limit""")
