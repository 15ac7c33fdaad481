"""The calls in a worker's hands against the list the database has of them."""

import time

import pytest

from shared.journal.members import Claim
from workers.claim import Hand, Hands

pytestmark = pytest.mark.req("RULE22")


def claim_of(hand: Hand, *, deadline_seconds: float | None = None) -> Claim:
    return Claim(
        call_id=hand.call_id, request_id="q", run_id="r", node_id=None, kind="noop", effect="op", path="main",
        position=1, attempt=0, fence=1, grant_id=hand.grant_id, sent=False, sent_host=None, crashes=0,
        deadline_seconds=deadline_seconds, rows_written=0,
    )  # fmt: skip


def test_a_grant_that_is_being_asked_for_is_no_orphan():
    hands = Hands()
    asking = hands.begin("c1")
    assert hands.compare([("c1", asking.grant_id)], known_before=[]) == []


def test_a_listed_grant_that_nobody_knows_is_an_orphan():
    hands = Hands()
    done = hands.begin("c1")
    hands.end(done)
    assert hands.compare([("c1", done.grant_id)], known_before=[]) == [done.grant_id]


def test_a_claim_that_the_list_lacks_is_lost():
    hands = Hands()
    hand = hands.begin("c1")
    hand.claim = claim_of(hand)
    hands.compare([], known_before=hands.claimed())
    assert hand.should_stop() == "lost"


def test_a_claim_granted_after_the_list_was_read_is_not_lost():
    hands = Hands()
    before = hands.claimed()
    hand = hands.begin("c1")
    hand.claim = claim_of(hand)
    hands.compare([], known_before=before)
    assert hand.should_stop() is None


def test_who_holds_nothing_is_told_that_it_is_lost():
    hands = Hands()
    stranger = Hand("c1", "g1")
    assert hands.of(claim_of(stranger)).should_stop() == "lost"


@pytest.mark.req("RULE29")
def test_a_call_past_its_deadline_is_told_to_end():
    hand = Hands().begin("c1")
    hand.claim, hand.granted_at = claim_of(hand, deadline_seconds=10), time.monotonic() - 11
    assert hand.should_stop() == "deadline"


def test_the_first_reason_to_end_stays():
    hand = Hands().begin("c1")
    hand.tell("cancel")
    hand.tell("worker_stopped")
    assert hand.should_stop() == "cancel"
