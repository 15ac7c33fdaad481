"""A lease that ran out is a suspicion; only a beat that stood still for a whole lease of ours is a death."""

import pytest

from scheduler.sweeps.suspicion import Suspicion
from shared.journal.hosts import Suspect

pytestmark = pytest.mark.req("RULE11")
W1 = Suspect("w1", beat=7, lease_seconds=30)


def test_one_look_buries_nobody():
    assert Suspicion().decide_dead([W1], now=0) == []


def test_the_same_beat_one_lease_apart_is_a_death():
    suspicion = Suspicion()
    suspicion.decide_dead([W1], now=0)
    assert suspicion.decide_dead([W1], now=29.9) == []
    assert suspicion.decide_dead([W1], now=30) == [W1]


def test_another_beat_starts_again():
    suspicion = Suspicion()
    suspicion.decide_dead([W1], now=0)
    later = Suspect("w1", beat=8, lease_seconds=30)
    assert suspicion.decide_dead([later], now=31) == []
    assert suspicion.decide_dead([later], now=61) == [later]


def test_who_was_seen_alive_in_between_starts_again():
    suspicion = Suspicion()
    suspicion.decide_dead([W1], now=0)
    suspicion.decide_dead([], now=10)
    assert suspicion.decide_dead([W1], now=31) == []


def test_after_a_failed_look_everybody_has_a_whole_lease_again():
    suspicion = Suspicion()
    suspicion.decide_dead([W1], now=0)
    suspicion.forget()
    assert suspicion.decide_dead([W1], now=60) == []
    assert suspicion.decide_dead([W1], now=90) == [W1]
