"""Messages are taken as hints: nothing is acknowledged, and what Flower reads comes in groups."""

import base64
import json
from contextlib import closing

import pytest
import redis

from shared.broker.client import connect
from tests.farm import Farm
from tests.integration.workers.scripted_run import ScriptedRun
from tests.waiting import wait_until


@pytest.mark.req("RULE36")
def test_a_running_call_has_no_message_left_that_could_come_again(farm: Farm):
    farm.wait_up(farm.start_worker("h1"))
    with closing(ScriptedRun(farm)) as run, closing(connect(farm.valkey.url)) as client:
        call = run.open(seconds=1)
        wait_until(lambda: farm.call_rows(run.run_id) and _claimed(farm, call), 20, "the call to be claimed")
        assert client.llen("farm") == 0
        assert client.hlen("unacked") == 0 and client.zcard("unacked_index") == 0
        wait_until(lambda: run.end_of(call), 20, "its end")
        before = _bookkeeping(client)
        again = run.open()
        wait_until(lambda: run.end_of(again), 20, "the end of another")
        assert _bookkeeping(client) == before, "a hint costs the broker nothing but itself"


def test_events_of_many_calls_come_in_few_messages_and_none_is_missing(farm: Farm):
    farm.wait_up(farm.start_worker("h1", concurrency=4))
    with closing(ScriptedRun(farm)) as run, closing(connect(farm.valkey.url)) as client, client.pubsub() as heard:
        heard.psubscribe("*celeryev*")
        calls = [run.open() for _ in range(40)]
        for call in calls:
            wait_until(lambda call=call: run.end_of(call), 30, "its end")
        messages: list[bytes] = []

        def all_said() -> bool:
            while message := heard.get_message(ignore_subscribe_messages=True, timeout=0.05):
                if b"task.multi" in message["channel"] or b"task.multi" in message["data"]:
                    messages.append(message["data"])
            return all(_said(messages, "task-succeeded", call) for call in calls)

        wait_until(all_said, 10, "the events of all calls")
        assert len(messages) < len(calls)


def _bookkeeping(client: redis.Redis) -> int:
    """How many commands the broker got that keep or forget what is not acknowledged."""
    said = client.info("commandstats")
    return sum(said.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("hset", "hdel", "zadd", "zrem"))


def _said(messages: list[bytes], kind: str, call: str) -> bool:
    for raw in messages:
        for event in json.loads(base64.b64decode(json.loads(raw)["body"])):
            if event["type"] == kind and event["uuid"].startswith(call):
                return True
    return False


def _claimed(farm: Farm, call: str) -> bool:
    [(state,)] = farm.database.fetch("select state from call_claims where call_id = %(call)s", {"call": call})
    return bool(state == "claimed")
