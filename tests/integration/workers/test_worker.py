"""One worker process against a real journal and broker: what it claims, drops, gives back and survives."""

import json
import signal
from contextlib import closing

import pytest
from sqlalchemy import text

from shared.journal import hosts, questions
from tests.farm import Farm
from tests.integration.workers.scripted_run import ScriptedRun
from tests.waiting import wait_until


def test_a_call_is_claimed_run_and_ended(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    with closing(ScriptedRun(farm)) as run:
        call = run.open(value=7)
        end = wait_until(lambda: run.end_of(call), 10, "the call's end")
        assert (end.event, end.host, end.result) == ("completed", "h1", b'{"value":7}')
        assert end.detail["request_id"] == end.request_id


@pytest.mark.req("RULE25", "RULE26")
def test_a_question_is_answered_while_every_slot_is_busy(farm: Farm):
    farm.wait_up(farm.start_worker("h1", concurrency=1))
    with closing(ScriptedRun(farm)) as run:
        call = run.open(seconds=600)
        asked = questions.ask(farm.database, "h1", questions.RECOVER, run.run_id, call)
        found = wait_until(lambda: questions.load_answer(farm.database, asked), 15, "the answer")
        assert (found["proven"], found["reason"]) == (False, "no_agent_call")


@pytest.mark.req("RULE25")
def test_what_waits_for_this_host_is_served_before_what_any_host_could_take(farm: Farm):
    farm.wait_up(farm.start_worker("h1", concurrency=1, idle_claim_seconds=60))
    with closing(ScriptedRun(farm)) as run:
        busy = run.open(seconds=1.5)
        claimed = text("select 1 from call_claims where state = 'claimed'")
        wait_until(lambda: farm.database.fetch(str(claimed), {}), 10, "the slot to be busy")
        anybody = [run.open(value=n) for n in range(3)]
        own = run.open(publish=False)
        run.send_again(own, "host.h1")
        for call in (*anybody, own):
            wait_until(lambda call=call: run.end_of(call), 15, "a call's end")
        ended = [row.call_id for row in farm.call_rows(run.run_id, "completed")]
        assert ended == [busy, own, *anybody]


@pytest.mark.req("RULE36")
def test_a_call_whose_message_was_lost_is_found_by_asking(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    with closing(ScriptedRun(farm)) as run:
        call = run.open(publish=False)
        assert wait_until(lambda: run.end_of(call), 10, "the call's end").event == "completed"


def test_an_op_that_the_worker_does_not_know_is_refused(farm: Farm):
    farm.wait_up(farm.start_worker("h1", role="bare_worker"))
    with closing(ScriptedRun(farm)) as run:
        call = run.open()
        end = wait_until(lambda: run.end_of(call), 10, "the call's end")
        assert end.event == "refused" and "does not know the op noop" in end.detail["error"]


def test_an_op_s_bad_argument_is_refused_with_its_sentence(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    with closing(ScriptedRun(farm)) as run:
        call = run.open(seconds="many")
        end = wait_until(lambda: run.end_of(call), 10, "the call's end")
        assert end.event == "refused" and end.detail["error"] == "noop: seconds is a number"


@pytest.mark.req("RULE5", "K64")
def test_a_second_worker_on_one_state_directory_ends_with_status_2(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    second = farm.start_worker("h2", state_dir=farm.directory / "state-h1")
    assert second.wait(20) == 2
    assert second.said("in use by the worker of host h1")


@pytest.mark.req("RULE5", "RULE6")
def test_a_host_name_of_another_state_directory_ends_with_status_2(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    second = farm.start_worker("h1", state_dir=farm.directory / "state-other")
    assert second.wait(20) == 2
    assert second.said("belongs to another state directory")


@pytest.mark.req("K35")
def test_a_state_directory_that_agents_could_write_to_ends_with_status_2_and_the_mend(farm: Farm):
    opened = {"sandbox_workspace_write": {"writable_roots": [str(farm.directory)]}}
    worker = farm.start_worker("h1", codex__config=json.dumps(opened))
    assert worker.wait(20) == 2
    assert worker.said("which a writing agent's sandbox opens; move it away with CRW_STATE_DIR")
    assert not (farm.directory / "state-h1").exists()


def test_too_little_disk_ends_with_status_2(farm: Farm):
    worker = farm.start_worker("h1", min_free_bytes=1 << 60)
    assert worker.wait(20) == 2
    assert worker.said("MiB free and needs")


@pytest.mark.req("RULE4")
def test_a_worker_that_was_declared_dead_ends_itself(farm: Farm):
    worker = farm.start_worker("h1")
    farm.wait_up(worker)
    worker.signal(signal.SIGSTOP)
    silent = wait_until(lambda: hosts.suspects(farm.database), 10, "its lease to run out")
    hosts.bury(farm.database, silent[0].worker_id, silent[0].beat)
    worker.signal(signal.SIGCONT)
    assert worker.wait(15) == 3
    assert worker.said("declared_dead")


@pytest.mark.req("RULE43")
def test_a_run_s_label_brings_its_calls_to_the_host_that_offers_it(farm: Farm):
    farm.wait_up(farm.start_worker("h1"), farm.start_worker("h2", labels='["gpu"]'))
    with closing(ScriptedRun(farm, label="gpu")) as run:
        calls = [run.open(value=n) for n in range(8)]
        ends = [wait_until(lambda call=call: run.end_of(call), 10, "a call's end") for call in calls]
        assert {end.host for end in ends} == {"h2"}


@pytest.mark.req("RULE43")
def test_a_draining_host_stops_eating_from_the_farm_s_queue_and_comes_back(farm: Farm):
    worker = farm.start_worker("h1")
    farm.wait_up(worker)
    set_state = text("update farm_hosts set state = :state where host = 'h1'")
    with farm.database.transaction() as connection:
        connection.execute(set_state, {"state": "draining"})
    wait_until(lambda: worker.said('"consumed": false'), 10, "the farm's queue to be left")
    with closing(ScriptedRun(farm)) as run:
        call = run.open()
        queue = farm.valkey.client()
        # What the consumer was already waiting for may still come in; then messages stay where they are.
        wait_until(lambda: run.send_again(call, "farm") or queue.llen("farm") >= 2, 20, "messages to stay on the queue")
        assert run.end_of(call) is None
        with farm.database.transaction() as connection:
            connection.execute(set_state, {"state": "up"})
        assert wait_until(lambda: run.end_of(call), 15, "the call's end").event == "completed"
