"""Statements about runs that ended so long ago that what they left may go."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks nothing. By the database's clock; a run that was opened again has no end and keeps what it has.
def expired_runs() -> TextClause:
    """Which of these runs ended longer ago than that."""
    return text("""
        select run_id from flow_runs where run_id = any(:runs) and state = 'ended'
          and ended_at + :days * interval '1 day' < clock_timestamp() order by run_id""")


# Locks nothing: two hosts that delete the same refs both find them gone.
def hubs_to_clean() -> TextClause:
    """Expired runs whose refs may still be on their hub, for a host that could reach it."""
    return text("""
        select r.run_id from farm_workers w join flow_runs r
          on (r.host_label is null or r.host_label = any(w.labels))
        where w.worker_id = :worker and r.state = 'ended'
          and r.ended_at + :days * interval '1 day' < clock_timestamp()
          and (r.hub_cleaned_at is null or r.hub_cleaned_at < r.ended_at)
        order by r.ended_at limit :limit""")


# Locks nothing. What a run was forked from is named by its forks' rows as well: they may go on in its conversations.
def forks_in_use() -> TextClause:
    """A fork of the run, or a fork of one, that has not ended longer ago than that; nothing when there is none."""
    return text("""
        with recursive forks as (
          select r.run_id, r.state, r.ended_at from flow_runs r where r.resumes_run = :run
          union select r.run_id, r.state, r.ended_at from flow_runs r join forks f on r.resumes_run = f.run_id)
        select run_id from forks where state <> 'ended'
          or ended_at + :days * interval '1 day' >= clock_timestamp() limit 1""")


# Locks nothing.
def thread_rows() -> TextClause:
    """The rows of a run that name a thread which was made on a host, also those that came with a fork."""
    return text("""
        select thread_id, detail_json from flow_calls where run_id = :run and host = :host
          and event in ('thread_started', 'fork_started') and thread_id is not null order by seq""")


# Locks: the run's row, for an instant.
def hub_cleaned() -> TextClause:
    """The run's refs are gone from its hub."""
    return text("update flow_runs set hub_cleaned_at = clock_timestamp() where run_id = :run")
