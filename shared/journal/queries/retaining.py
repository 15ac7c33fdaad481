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


# Locks: the run's row, for an instant.
def hub_cleaned() -> TextClause:
    """The run's refs are gone from its hub."""
    return text("update flow_runs set hub_cleaned_at = clock_timestamp() where run_id = :run")
