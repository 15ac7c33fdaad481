"""A run's share of the broker: what is beyond it is held back and follows, run by run in turns."""

import json
from contextlib import closing

import pytest

from deploy.embedded import Valkey
from scheduler.sweeps.hand_over import HandOver
from shared.broker.publish import Publisher
from shared.journal import outbox
from shared.journal.append import OpenCall, RunLease, RunRows
from tests.journal_farm import Farm
from tests.waiting import wait_until


def _open(farm: Farm, lease: RunLease, count: int, *, held: bool) -> list[OpenCall]:
    opened = [farm.opening(lease, held=held) for _ in range(count)]
    appended = farm.writer.submit(RunRows(lease, opens=tuple(opened))).result()
    assert len(appended.publications) == (0 if held else count), "what is held back is not to be sent"
    return opened


@pytest.mark.req("RULE36")
def test_runs_come_in_turns_and_none_gets_more_than_its_share(farm: Farm):
    wide, narrow = farm.new_run(), farm.new_run()
    first = _open(farm, wide, 3, held=False)
    _open(farm, wide, 50, held=True)
    _open(farm, narrow, 2, held=True)
    assert outbox.any_held(farm.database)
    taken = outbox.take_held(farm.database, 5, 100)
    # Three of the wide run are published already: two more, and those of the other run between them.
    assert {taken[0].run_id, taken[1].run_id} == {taken[2].run_id, taken[3].run_id} == {wide.run_id, narrow.run_id}
    assert sorted(item.run_id for item in taken) == sorted([wide.run_id] * 2 + [narrow.run_id] * 2)
    assert all(item.tries == 1 and item.queue == "farm" for item in taken)
    assert outbox.take_held(farm.database, 5, 100) == [], "its share is used up"
    worker = farm.new_worker()
    for call in first:
        farm.claim(worker, call)
    assert [item.run_id for item in outbox.take_held(farm.database, 5, 100)] == [wide.run_id] * 3
    assert len(outbox.take_held(farm.database, 1000, 10)) == 10, "no more than asked for at once"


@pytest.mark.req("RULE36")
def test_what_is_held_back_is_nothing_that_is_due_and_goes_with_its_run(farm: Farm):
    lease = farm.new_run()
    _open(farm, lease, 4, held=True)
    assert outbox.take_due(farm.database, 10) == []
    farm.writer.submit(RunRows(lease, withdraw=True)).result()
    assert not outbox.any_held(farm.database)


@pytest.mark.req("RULE36")
def test_a_held_back_call_may_be_claimed_by_a_worker_that_asks_for_it(farm: Farm):
    [call] = _open(farm, farm.new_run(), 1, held=True)
    farm.claim(farm.new_worker(), call)
    assert not outbox.any_held(farm.database)


@pytest.mark.req("RULE36")
def test_the_loop_hands_over_as_calls_are_claimed(farm: Farm, valkey: Valkey):
    lease, worker = farm.new_run(), farm.new_worker()
    opened = {call.call_id: call for call in _open(farm, lease, 12, held=True)}
    with closing(Publisher(valkey.url)) as publisher:
        hand_over = HandOver(farm.database, publisher, 4, 30)
        hand_over.start()
        try:
            wait_until(lambda: publisher.backlog("farm") == 4, 10, "a share of calls")
            while opened:
                raw = wait_until(lambda: valkey.client().rpop("farm"), 10, "the next calls")
                assert publisher.backlog("farm") < 4
                farm.claim(worker, opened.pop(json.loads(raw)["headers"]["id"].split(".")[0]))
        finally:
            hand_over.stop()
