"""Publishing: what lies on the queue, a broker that restarts, is away, or freezes."""

import base64
import json
import time
from dataclasses import dataclass

import pytest

from deploy.embedded import Valkey
from shared.base.errors import BrokerUnavailable
from shared.broker.app import make_app
from shared.broker.publish import Publisher


@dataclass(frozen=True)
class Message:
    call_id: str
    request_id: str = "q1"
    tries: int = 1
    queue: str = "farm"
    run_id: str = "r1"
    kind: str = "agent"
    role: str | None = "reviewer"
    node_id: str | None = "n1"
    label: str | None = "look"


def test_a_message_names_the_call_and_nothing_else(valkey: Valkey):
    publisher = Publisher(valkey.url)
    publisher.send([Message("c1", tries=3, queue="host.h1")])
    publisher.close()
    raw = valkey.client().lrange("host.h1", 0, -1)
    assert len(raw) == 1
    message = json.loads(raw[0])
    assert message["headers"]["task"] == "crw.call"
    assert message["headers"]["id"] == "c1.q1.p3"
    assert message["headers"]["shadow"] == "crw.agent.reviewer"
    assert message["headers"]["kwargsrepr"] == "run=r1 node=n1 role=reviewer label=look"
    assert json.loads(base64.b64decode(message["body"]))[0] == ["c1", "q1"]


def test_five_hundred_positions_leave_in_one_go(valkey: Valkey):
    publisher = Publisher(valkey.url)
    publisher.send([Message("c0")])
    started = time.monotonic()
    publisher.send([Message(f"c{number}") for number in range(500)])
    seconds = time.monotonic() - started
    publisher.close()
    assert valkey.client().llen("farm") == 501
    # A millisecond each is what the scheduler is promised; slow machines get room.
    assert seconds < 2.0


def test_publishing_goes_on_after_the_broker_restarted(tmp_path):
    with Valkey(tmp_path) as server:
        publisher = Publisher(server.url)
        publisher.send([Message("c1")])
        server.kill()
        with pytest.raises(BrokerUnavailable, match="does not answer"):
            publisher.send([Message("c2")])
        server.start()
        publisher.send([Message("c3")])
        assert server.client().llen("farm") == 2
        publisher.close()


def test_a_frozen_broker_gives_an_error_and_not_a_hang(tmp_path):
    with Valkey(tmp_path) as server:
        publisher = Publisher(server.url)
        publisher.send([Message("c1")])
        server.freeze()
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            publisher.send([Message("c2")])
        assert time.monotonic() - started < 15
        server.thaw()
        publisher.close()


def test_a_message_is_member_by_member_what_celery_would_send(valkey: Valkey):
    publication = Message("c1", tries=2, queue="host.h1", label='wörter "und" \\ mehr')
    publisher = Publisher(valkey.url)
    publisher.send([publication])
    publisher.close()
    app = make_app(valkey.url)
    app.send_task(
        "crw.call", args=("c1", "q1"), task_id="c1.q1.p2", queue="host.h1", shadow="crw.agent.reviewer",
        argsrepr="(c1, q1)", kwargsrepr='run=r1 node=n1 role=reviewer label=wörter-"und"-\\-mehr', ignore_result=True,
    )  # fmt: skip
    app.close()
    theirs, ours = (json.loads(raw) for raw in valkey.client().lrange("host.h1", 0, -1))
    assert json.loads(base64.b64decode(ours.pop("body"))) == json.loads(base64.b64decode(theirs.pop("body")))
    # Celery names the exchange it declares for a queue; a worker never looks at it. Each message has its own tag.
    for one in (ours, theirs):
        assert len(one["properties"].pop("delivery_tag")) == 36
        assert one["properties"].pop("delivery_info")["routing_key"] == "host.h1"
    assert ours["headers"].pop("origin") == theirs["headers"].pop("origin")
    # What Flower shows stands in the headers; nobody replies.
    for name in ("argsrepr", "kwargsrepr", "reply_to"):
        theirs["properties"].pop(name)
    assert ours["properties"].pop("reply_to") == ""
    assert ours == theirs
