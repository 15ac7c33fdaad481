"""Statements about the App Servers of hosts and what their accounts have left."""

from __future__ import annotations

from sqlalchemy import TextClause, text


# Locks: the row, if it is there already. A start that is written again after a lost answer changes nothing.
def generation_began() -> TextClause:
    """An App Server runs."""
    return text("""
        insert into server_generations (generation, host, worker_id, pid, pid_started, boot_id, codex_path,
          codex_version, state, started_at)
        values (:generation, :host, :worker, :pid, :pid_started, :boot, :path, :version, 'up', clock_timestamp())
        on conflict (generation) do nothing""")


# Locks: the row. The first reason stays.
def generation_ended() -> TextClause:
    """An App Server has ended."""
    return text("""
        update server_generations set state = 'ended', ended_at = clock_timestamp(), reason = :reason
        where generation = :generation and state = 'up'""")


# Locks: the rows. The worker that asks has the state directory's lock, which a living server would have as well.
def generations_of_the_dead() -> TextClause:
    """End what earlier workers of the host had running."""
    return text("""
        update server_generations set state = 'ended', ended_at = clock_timestamp(), reason = 'worker_gone'
        where host = :host and worker_id <> :worker and state = 'up'""")


# Locks: the row of each window.
def limit_seen() -> TextClause:
    """What the account of a host has used of a window."""
    return text("""
        insert into host_limits (host, limit_id, used_percent, window_minutes, resets_at, observed_at)
        values (:host, :limit, :used, :minutes, to_timestamp(:resets), clock_timestamp())
        on conflict (host, limit_id) do update set used_percent = excluded.used_percent,
          window_minutes = excluded.window_minutes, resets_at = excluded.resets_at,
          observed_at = excluded.observed_at""")


# Locks: what it deletes.
def drop_generations() -> TextClause:
    """Forget App Servers of a host that ended long ago."""
    return text("""
        delete from server_generations where host = :host and state = 'ended'
          and ended_at + :days * interval '1 day' < clock_timestamp()""")


# Locks nothing.
def newest_generations() -> TextClause:
    """The newest App Server of each host; one that its worker did not end, and whose worker is gone, is not up."""
    return text("""
        select distinct on (g.host) g.host, g.generation, g.pid, g.codex_path, g.codex_version, g.started_at,
          g.ended_at, g.reason,
          g.state = 'up' and w.state in ('up', 'draining') and w.lease_until > clock_timestamp() as up
        from server_generations g join farm_workers w on w.worker_id = g.worker_id
        order by g.host, g.started_at desc""")


# Locks nothing. A window whose reset has passed says nothing any more.
def limits_now() -> TextClause:
    """What the accounts of hosts have used of their windows, the fullest of a host first."""
    return text("""
        select host, limit_id, used_percent, window_minutes, resets_at, observed_at from host_limits
        where resets_at is null or resets_at > clock_timestamp()
        order by host, used_percent desc, limit_id""")
