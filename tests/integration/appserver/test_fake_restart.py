"""The fake killed and started anew, as no real host can be told to: its cut turns read as a test wants."""

from __future__ import annotations

import pytest

from shared.base.errors import AnswerLost, ThreadMissing
from tests.contract.hosts import HANG, prompt_of
from tests.fakehost.install import FakeHost
from tests.integration.appserver.conftest import MakeService
from tests.waiting import wait_until
from workers.appserver import ThreadSettings, TurnRequest


@pytest.mark.req("S30")
@pytest.mark.parametrize("cut_as", ["interrupted", "failed", "notYetKnown"])
def test_a_restart_unloads_every_thread_and_cuts_what_ran(
    fake: FakeHost, make_service: MakeService, cut_as: str
) -> None:
    service = make_service()
    before = service.connection()
    wanted = ThreadSettings(str(fake.state), "m", "high", "read-only", "do", "crw:r/c/1")
    thread = before.threads.start(wanted)
    with before.turns.cursor(thread.id) as cursor:
        before.turns.start(cursor, TurnRequest("c/t1", "n1", "go", "m", "high"))
        done = cursor.wait(10)
    assert done is not None and done.status == "completed"
    with before.turns.cursor(thread.id) as cursor:
        cut_id = before.turns.start(cursor, TurnRequest("c/t2", "n2", prompt_of(HANG), "m", "high"))
        assert cursor.wait_delivered(10)
        fake.kill(cut_as)
        with pytest.raises(AnswerLost):
            cursor.wait(10)
    wait_until(lambda: not before.alive, 10, "the connection to be gone")
    after = service.connection()
    assert after.threads.read(thread.id).status == "notLoaded"
    with after.turns.cursor(thread.id) as cursor, pytest.raises(ThreadMissing):
        after.turns.start(cursor, TurnRequest("c/t3", "n3", "go", "m", "high"))
    after.threads.resume(thread.id, wanted)
    cut, kept = after.turns.list_full(thread.id)
    assert (cut.id, cut.status, cut.completed_at) == (cut_id, cut_as, None)
    assert (kept.id, kept.status) == (done.turn_id, "completed")
