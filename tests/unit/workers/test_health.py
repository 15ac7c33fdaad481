"""When a worker ends itself for its supervisor: what has stopped, for how long, and whether the database answers."""

from __future__ import annotations

import pytest

from workers.health import UNHEALTHY_STATUS, Health

LEASE = 2.0


class Signs:
    """A worker's signs of life as a test sets them."""

    def __init__(self) -> None:
        self.look = self.lease = 0.0
        self.answers = True
        self.ended: list[int] = []
        self.health = Health(
            LEASE,
            look_age=lambda: self.look,
            lease_age=lambda: self.lease,
            database_answers=lambda: self.answers,
            end=self.ended.append,
        )


@pytest.mark.req("RULE29")
@pytest.mark.parametrize(("sign", "words"), [("look", "look for calls"), ("lease", "lease is not renewed")])
def test_what_has_stopped_for_three_leases_is_a_fault_one_lease_later(sign: str, words: str):
    signs = Signs()
    setattr(signs, sign, 3 * LEASE)
    assert signs.health.find_fault(100) is None
    setattr(signs, sign, 3 * LEASE + 1)
    assert signs.health.find_fault(101) is None
    assert words in (signs.health.find_fault(101 + LEASE) or "")


@pytest.mark.req("RULE11")
def test_a_database_that_is_away_is_no_fault_and_gives_everybody_a_lease_when_it_is_back():
    signs = Signs()
    signs.look = signs.lease = 100.0
    signs.answers = False
    assert signs.health.find_fault(0) is None and signs.health.find_fault(60) is None
    signs.answers = True
    assert signs.health.find_fault(61) is None
    signs.look = signs.lease = 0.0
    assert signs.health.find_fault(61 + LEASE) is None
    signs.look = 100.0
    assert signs.health.find_fault(70) is None, "the time begins anew"


def test_a_fault_ends_the_worker_with_a_status_of_its_own():
    signs = Signs()
    signs.look = 100.0
    signs.health._answers_since = -1000.0
    signs.health.loop(lambda seconds: False)
    assert signs.ended == [UNHEALTHY_STATUS]
