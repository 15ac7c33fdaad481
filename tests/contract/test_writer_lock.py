"""Two servers on one home: one writes a thread, the other reads of it what proves nothing."""

from __future__ import annotations

import pytest

from shared.base.errors import ThreadBusy, ThreadMissing
from tests.contract.hosts import TURN_SECONDS, ContractHost, final
from workers.appserver import pick_answer

_WAITS = {"wait_event": "go", **final("done")}


@pytest.mark.req("K17", "RULE5")
def test_a_second_server_on_the_home_cannot_take_a_loaded_thread(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    own_host.run(thread, final("mine"))
    with own_host.second() as second, pytest.raises(ThreadBusy, match="already has an active writer"):
        second.threads.resume(thread.id, wanted)


@pytest.mark.req("K17", "K40")
def test_interrupted_read_without_the_lock_proves_nothing(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread, turns = own_host.connection.threads.start(wanted), own_host.connection.turns
    with turns.cursor(thread.id) as cursor, own_host.second() as second:
        turn_id = turns.start(cursor, own_host.request(_WAITS))
        assert cursor.wait_delivered(TURN_SECONDS)
        assert second.threads.read(thread.id).status == "notLoaded"
        seen = second.turns.read_full(thread.id, turn_id)
        # The shape of a turn that a kill cut, of a turn that runs.
        assert seen is not None and (seen.status, seen.completed_at) == ("interrupted", None)
        with pytest.raises(ThreadBusy):
            second.threads.resume(thread.id, wanted)
        own_host.release("go")
        end = cursor.wait(TURN_SECONDS)
        assert end is not None and end.status == "completed"
        ended = second.turns.read_full(thread.id, turn_id)
    assert ended is not None and ended.status == "completed" and ended.completed_at is not None
    assert pick_answer(ended.items) == "done"


@pytest.mark.req("K17", "T23")
def test_a_thread_that_is_not_loaded_is_not_found_for_a_turn_and_yet_there(own_host: ContractHost) -> None:
    thread = own_host.thread()
    own_host.run(thread, final("mine"))
    with own_host.second() as second:
        with second.turns.cursor(thread.id) as cursor, pytest.raises(ThreadMissing, match="thread not found"):
            second.turns.start(cursor, own_host.request(final("never")))
        assert second.threads.read(thread.id).id == thread.id


@pytest.mark.req("K17", "RULE5")
def test_the_lock_goes_with_the_process_that_was_killed(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    own_host.run(thread, final("mine"))
    with own_host.second() as second:
        own_host.kill()
        assert second.threads.resume(thread.id, wanted).id == thread.id
        # A new first one finds it taken now.
        with pytest.raises(ThreadBusy):
            own_host.connection.threads.resume(thread.id, wanted)
