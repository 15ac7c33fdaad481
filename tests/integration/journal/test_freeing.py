"""A call goes back from its holder: released, lost sight of, or far over its deadline."""

from __future__ import annotations

import pytest

from shared.base.errors import RightLost
from shared.journal import claims, freeing, open_calls
from shared.journal.claims import Denied
from shared.model.rows import NewCallRow
from tests.journal_farm import Farm
from tests.waiting import wait_until

_CLAIMED_AGO = """
    update call_claims set claimed_at = clock_timestamp() - %(seconds)s * interval '1 s' where call_id = %(call)s
    returning 1"""


def test_a_released_call_is_open_at_once_and_one_that_sent_something_is_not_released(farm: Farm) -> None:
    worker = farm.new_worker()
    lease = farm.new_run()
    held, sending = farm.claim(worker, farm.open(lease)), farm.claim(worker, farm.open(lease))
    farm.writer.append(sending, NewCallRow("turn_requested"))
    assert claims.release(farm.database, held) and not claims.release(farm.database, held)
    assert not claims.release(farm.database, sending)
    states = {
        state.call_id: (state.state, state.crashes) for state in open_calls.open_calls(farm.database, lease.run_id)
    }
    assert states == {held.call_id: ("open", 0), sending.call_id: ("claimed", 0)}


@pytest.mark.req("RULE22", "T33", "T35", "J09")
def test_a_sent_call_that_its_worker_lost_sight_of_is_stranded_and_granted_to_its_host_again(farm: Farm) -> None:
    worker, opened = farm.new_worker(), farm.open(farm.new_run())
    held = farm.claim(worker, opened, "g1")
    farm.writer.append(held, NewCallRow("turn_requested"))
    # The row behind it cannot be stored: from here on nothing more is written under this right.
    held.failed = True
    with pytest.raises(RightLost):
        farm.writer.append(held, NewCallRow("turn_requested"))
    assert not claims.release_grant(farm.database, opened.call_id, held.fence, "g1")
    assert claims.strand_grant(farm.database, opened.call_id, held.fence, "g1")
    assert not claims.strand_grant(farm.database, opened.call_id, held.fence, "g1")
    assert farm.ask(farm.new_worker("h2"), opened) == Denied("other_host")
    again = farm.claim(worker, opened)
    assert again.sent and again.crashes == 0 and again.fence > held.fence


@pytest.mark.req("RULE29")
def test_a_claim_far_over_its_deadline_is_taken_away(farm: Farm) -> None:
    held = farm.claim(farm.new_worker(), farm.open(farm.new_run(), deadline_seconds=0.05))
    assert freeing.free_overdue(farm.database, 60) == []
    (freed,) = wait_until(lambda: freeing.free_overdue(farm.database, 0.05), 5, "the claim to be overdue")
    assert freed.call_id == held.call_id
    with pytest.raises(RightLost):
        farm.writer.append(held, NewCallRow("placed"))


@pytest.mark.req("RULE29")
def test_a_deadline_that_no_clock_can_hold_keeps_no_other_overdue_claim_from_being_taken(farm: Farm) -> None:
    worker = farm.new_worker()
    farm.claim(worker, farm.open(farm.new_run(), deadline_seconds=1e30))
    held = farm.claim(worker, farm.open(farm.new_run(), deadline_seconds=0.05))
    (freed,) = wait_until(lambda: freeing.free_overdue(farm.database, 0.05), 5, "the claim to be overdue")
    assert freed.call_id == held.call_id


@pytest.mark.req("RULE29")
def test_each_next_holder_of_an_overdue_call_gets_twice_the_grace_so_that_a_slow_one_comes_to_its_end(
    farm: Farm,
) -> None:
    worker, opened = farm.new_worker(), farm.open(farm.new_run(), deadline_seconds=0.0)
    farm.claim(worker, opened)
    for crashes in (1, 2, 3):
        grace = 0.4 * 2 ** (crashes - 1)
        farm.rows(_CLAIMED_AGO, call=opened.call_id, seconds=0.9 * grace)
        assert freeing.free_overdue(farm.database, 0.4) == []
        farm.rows(_CLAIMED_AGO, call=opened.call_id, seconds=1.1 * grace)
        (freed,) = freeing.free_overdue(farm.database, 0.4)
        assert freed.crashes == crashes
        farm.claim(worker, opened)


@pytest.mark.req("RULE29", "RULE35")
def test_a_finishing_call_is_left_to_its_holder_however_long_the_hub_is_away_and_no_crash_is_counted(
    farm: Farm,
) -> None:
    worker, lease = farm.new_worker(), farm.new_run()
    finishing, thinking, pushing = (
        farm.claim(worker, farm.open(lease, kind=kind, deadline_seconds=0.0)) for kind in ("agent", "agent", "commit")
    )
    for held in (finishing, thinking):
        farm.writer.append(held, NewCallRow("turn_requested"))
    farm.writer.append(finishing, NewCallRow("turn_ended"), NewCallRow("push_requested"))
    farm.writer.append(pushing, NewCallRow("push_requested"))
    farm.rows("update call_claims set claimed_at = claimed_at - interval '1 h' returning 1")
    # The other two lose theirs: one is a model that hangs, one an op that has deadlines of its own.
    assert {freed.call_id for freed in freeing.free_overdue(farm.database, 0.0)} == {thinking.call_id, pushing.call_id}
    states = {
        state.call_id: (state.state, state.crashes) for state in open_calls.open_calls(farm.database, lease.run_id)
    }
    assert states[finishing.call_id] == ("claimed", 0)
    farm.writer.append(finishing, NewCallRow("completed"))
