"""What dies once comes back at once; what dies again and again is slowed down and given up."""

from __future__ import annotations

from deploy.restarts import RESTARTS, WINDOW_SECONDS, Deaths


def test_each_restart_waits_longer_and_one_death_too_many_is_the_end() -> None:
    deaths = Deaths()
    assert [deaths.pause_seconds("worker", 10.0) for _ in range(RESTARTS + 1)] == [0.0, 1.0, 2.0, 4.0, None]
    assert deaths.pause_seconds("scheduler", 10.0) == 0.0


def test_deaths_long_ago_are_forgotten() -> None:
    deaths = Deaths()
    for _ in range(RESTARTS):
        deaths.pause_seconds("worker", 10.0)
    assert deaths.pause_seconds("worker", 11.0 + WINDOW_SECONDS) == 0.0
