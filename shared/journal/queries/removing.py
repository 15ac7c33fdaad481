"""Statements of those who remove what an ended run left, and of those who keep them away from a run."""

from __future__ import annotations

from sqlalchemy import TextClause, text

# A worker that was declared dead for its silence may be in the middle of a step; once it has ended in order, or its
# host has the next one (which has the lock of the state directory), nothing of it goes on.
_OF_GONE_WORKER = """exists (select 1 from farm_workers w where w.worker_id = c.worker_id and (w.state = 'stopped'
            or (w.state = 'dead' and exists (select 1 from farm_workers n where n.host = w.host
              and n.started_at > w.started_at))))"""


# Locks: the worker's row FOR SHARE, first as in a claim: "this worker is dead" and this exclude each other.
def worker_to_clean() -> TextClause:
    """Lock a live worker's row against being buried."""
    return text("""
        select worker_id from farm_workers where worker_id = :worker and state in ('up', 'draining') for share""")


# Locks: the run; that it has ended, and is the one that was meant, stands in the WHERE of the locking statement.
def run_to_clean() -> TextClause:
    """Lock an ended run and note that what it left goes from here on."""
    return text("""
        update flow_runs set cleaned_at = clock_timestamp() where run_id = :run and state = 'ended'
          and (cast(:days as float8) is null or ended_at + :days * interval '1 day' < clock_timestamp())
          and (cast(:resumes as integer) is null or resumes = :resumes) returning run_id""")


# Locks: the new row. The run is locked: whoever opens it again waits, and then sees this row.
def new_cleaner() -> TextClause:
    """Say who removes."""
    return text("""
        insert into run_cleaners as c (cleaner, run_id, place, worker_id, held_until)
        values (:cleaner, :run, :place, :worker, clock_timestamp() + :seconds * interval '1 s')
        on conflict (cleaner) do update set held_until = excluded.held_until""")


# Locks: the cleaner's row. No row: it was silent for too long, and somebody may have opened the run again.
def renew_cleaner() -> TextClause:
    """Hold on for longer."""
    return text("""
        update run_cleaners set held_until = clock_timestamp() + :seconds * interval '1 s'
        where cleaner = :cleaner and held_until > clock_timestamp() returning cleaner""")


# Locks: the cleaner's row.
def end_cleaner() -> TextClause:
    """The removal is over."""
    return text("delete from run_cleaners where cleaner = :cleaner")


# Locks: the run and those it was forked from, by run id: it may go on in their conversations. Who is forked from whom
# is never updated. A removal that begins waits here, and finds what this transaction made of the run.
def line_to_keep() -> TextClause:
    """Lock a run and its ancestors against removals that begin."""
    return text("""
        with recursive line as (
          select r.run_id, r.resumes_run from flow_runs r where r.run_id = :run
          union select r.run_id, r.resumes_run from flow_runs r join line l on r.run_id = l.resumes_run)
        select q.run_id from flow_runs q where q.run_id in (select run_id from line) order by q.run_id
        for no key update of q""")


# Locks: the rows that go, by cleaner; one that is renewed at this moment is waited for, and stays.
def drop_dead_cleaners() -> TextClause:
    """Forget those that died: silent for too long, or of a worker that is no more."""
    return text(f"""
        with dead as (
          select c.cleaner from run_cleaners c where c.run_id = any(:runs) and (c.held_until <= clock_timestamp()
            or {_OF_GONE_WORKER})
          order by c.cleaner for update of c)
        delete from run_cleaners c using dead d where c.cleaner = d.cleaner""")


# Locks nothing; after `drop_dead_cleaners` in a transaction that has the runs, who is left is at work.
def cleaners() -> TextClause:
    """Who removes something of these runs, the oldest first."""
    return text("""
        select run_id, place, cast(extract(epoch from held_until - clock_timestamp()) as float8) as seconds_left
        from run_cleaners where run_id = any(:runs) and held_until > clock_timestamp() order by began_at, cleaner""")


# Locks nothing.
def cleaners_of_line() -> TextClause:
    """The same for a run and those it was forked from; for people, nothing is decided by it."""
    return text(f"""
        with recursive line as (
          select r.run_id, r.resumes_run from flow_runs r where r.run_id = :run
          union select r.run_id, r.resumes_run from flow_runs r join line l on r.run_id = l.resumes_run)
        select c.run_id, c.place, cast(extract(epoch from c.held_until - clock_timestamp()) as float8) as seconds_left
        from run_cleaners c where c.run_id in (select run_id from line) and c.held_until > clock_timestamp()
          and not {_OF_GONE_WORKER} order by c.began_at, c.cleaner""")
