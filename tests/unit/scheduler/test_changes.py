"""Runs hear of what happened, by a wake-up or by the poll, and miss nothing between reading and waiting."""

import asyncio
import threading

import pytest

from scheduler.changes import Changes

pytestmark = pytest.mark.req("RULE48")


def in_loop(body):
    return asyncio.run(asyncio.wait_for(body(), 5))


def test_a_wake_up_between_reading_and_waiting_is_not_missed():
    async def body():
        changes = Changes(asyncio.get_running_loop())
        watch = changes.open("r1")
        changes.hear("r1")
        await asyncio.sleep(0)
        await watch.wait()

    in_loop(body)


def test_a_wake_up_comes_from_any_thread_and_reaches_its_run_alone():
    async def body():
        changes = Changes(asyncio.get_running_loop())
        mine, other = changes.open("r1"), changes.open("r2")
        threading.Thread(target=changes.hear, args=("r1",)).start()
        await mine.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.wait(), 0.05)

    in_loop(body)


def test_a_wake_up_for_a_run_that_nobody_drives_here_makes_the_process_look():
    looked = []

    async def body():
        changes = Changes(asyncio.get_running_loop(), on_other=lambda: looked.append(1))
        changes.hear("r9")
        await asyncio.sleep(0.01)

    in_loop(body)
    assert looked == [1]


def test_the_poll_tells_of_new_rows_and_of_a_stop_and_only_once():
    async def body():
        changes = Changes(asyncio.get_running_loop())
        watch = changes.open("r1")
        watch.seen_seq = 4
        changes.polled([("r1", 5, None)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.wait(), 0.05)
        changes.polled([("r1", 6, None)])
        await watch.wait()
        watch.seen_seq = 5
        changes.polled([("r1", 6, "cancel")])
        await watch.wait()
        assert watch.stop == "cancel"
        changes.polled([("r1", 6, "cancel")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.wait(), 0.05)

    in_loop(body)
