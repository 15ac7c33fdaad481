"""The real App Server under a call dies: what the model was asked is the witness."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from deploy.demo.scripted_model import ScriptedModel, provider_config
from shared.base.settings import CodexSettings
from shared.journal.append import OpenCall
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.mortal import Died
from tests.repositories import git
from tests.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

WRITES = {"out": [{"exec": "echo line >> made.txt"}]}
WAITS = {"wait_event": "go", **DONE}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """The model provider that the real server asks."""
    made = ScriptedModel().start()
    yield made
    made.stop()


@pytest.fixture
def one(make_worker: Callable[..., OneWorker], model: ScriptedModel) -> OneWorker:
    """A worker on the real App Server."""
    config = provider_config(model.base_url)
    return make_worker(codex=CodexSettings(config=config, models=["gpt-test"], request_timeout_seconds=20))


def check_completed(one: OneWorker, model: ScriptedModel, call: OpenCall) -> None:
    """The call has its result, its tree is on the hub, and no operation stands in two turns."""
    ended = one.ended(call)
    assert ended is not None, one.words(call)
    assert (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"}), ended
    tree = one.rows(call)[-1].pending_tree
    assert git(one.hub, "show", f"{tree}:made.txt") == "line"
    turns = Counter(entry["turn"] for entry in model.requests())
    announced = [row.operation for row in one.rows(call) if row.event == "turn_requested"]
    assert len(announced) == len(set(announced)) and len(turns) <= len(announced)


def work_until_killed(one: OneWorker, call: OpenCall) -> None:
    with contextlib.suppress(Died):
        one.work(call)


def asked(one: OneWorker, call: OpenCall) -> list[str]:
    return [row.detail["packet"]["kind"] for row in one.rows(call) if row.event == "turn_requested"]


@pytest.mark.req("K17", "K18", "J07", "A07")
def test_a_turn_cut_by_the_death_of_worker_and_server_is_gone_on_with_in_place(
    one: OneWorker, model: ScriptedModel
) -> None:
    call = one.open(prompt(WRITES, WAITS))
    working = threading.Thread(target=work_until_killed, args=(one, call))
    working.start()
    wait_until(lambda: len(model.requests()) == 2, 60, "the turn to have written")
    one.kill_all()
    working.join(60)
    model.event("go").set()
    one.reincarnate()
    one.work(call)
    ended = [row for row in one.rows(call) if row.event == "turn_ended"]
    assert [(row.detail["status"], row.detail["cut"]) for row in ended] == [("interrupted", True), ("completed", False)]
    assert asked(one, call) == ["task", "continue"]
    result = one.ended(call)
    assert result is not None and result.status is Status.COMPLETED
    assert "line" in git(one.hub, "show", f"{one.rows(call)[-1].pending_tree}:made.txt")


@pytest.mark.req("J07", "T32")
def test_a_turn_that_ended_before_the_worker_could_say_so_is_adopted(one: OneWorker, model: ScriptedModel) -> None:
    call = one.open(prompt(WRITES, DONE))
    one.work_until_death(call, "before:turn_ended")
    before = len(model.requests())
    one.reincarnate()
    one.work(call)
    check_completed(one, model, call)
    assert len(model.requests()) == before and asked(one, call) == ["task"]


@pytest.mark.req("K18", "T24", "RULE6")
def test_a_turn_that_was_announced_and_not_sent_is_proven_lost_and_sent_once(
    one: OneWorker, model: ScriptedModel
) -> None:
    call = one.open(prompt(WRITES, DONE))
    one.work_until_death(call, "after:turn_requested")
    assert model.requests() == []
    one.reincarnate()
    one.work(call)
    check_completed(one, model, call)
    assert asked(one, call) == ["task", "task"] and len({entry["turn"] for entry in model.requests()}) == 1


@pytest.mark.req("K16", "K18", "T24")
@pytest.mark.parametrize("at", ["before:thread_started", "before:turn_started"])
def test_a_death_right_behind_a_request_leaves_nothing_twice(one: OneWorker, model: ScriptedModel, at: str) -> None:
    call = one.open(prompt(WRITES, DONE))
    one.work_until_death(call, at)
    one.reincarnate()
    one.work(call)
    ended = one.ended(call)
    assert ended is not None and ended.status is Status.COMPLETED, one.words(call)
    operations = [row.operation for row in one.rows(call) if row.event == "turn_requested"]
    assert len(operations) == len(set(operations))


@pytest.mark.req("T32", "K18")
def test_a_server_that_is_killed_in_a_turn_is_followed_by_one_that_goes_on_with_it(
    one: OneWorker, model: ScriptedModel
) -> None:
    call = one.open(prompt(WRITES, WAITS))
    working = threading.Thread(target=one.work, args=(call,))
    working.start()
    wait_until(lambda: len(model.requests()) == 2, 60, "the turn to have written")
    one.kill_server()
    model.event("go").set()
    working.join(90)
    ended = one.ended(call)
    assert ended is not None and ended.status is Status.COMPLETED, one.words(call)
    assert asked(one, call) == ["task", "continue"]
