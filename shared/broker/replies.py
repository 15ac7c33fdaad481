"""Short answers from hosts to a command that waits: a list on the broker that expires by itself.

Only for what may get lost without harm: whoever asks can ask again, and says what
was not answered. The question travels as the task `crw.clean` on the host's queue.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import redis
from kombu.exceptions import KombuError

from shared.base.errors import BrokerUnavailable
from shared.base.log import mask_url
from shared.broker.app import make_app
from shared.broker.client import connect
from shared.broker.names import host_queue

CLEAN_TASK = "crw.clean"
_PREFIX = "crw.reply."
_KEEP_SECONDS = 600


def ask_to_clean(broker_url: str, run_id: str, hosts: Sequence[str], resumes: int) -> str:
    """Ask hosts to remove what a run left on them; the address at which they answer.

    Args:
        resumes: how often the run had been resumed: one that is resumed and ends again is not the one that was meant.

    Raises:
        BrokerUnavailable: the broker did not take the questions.
    """
    address = _PREFIX + secrets.token_hex(8)
    app = make_app(broker_url)
    try:
        for host in hosts:
            # A host that is away finds no question of last week when it is back.
            args = (run_id, address, resumes)
            app.send_task(CLEAN_TASK, args=args, queue=host_queue(host), expires=_KEEP_SECONDS, shadow=CLEAN_TASK)
    except (KombuError, redis.exceptions.RedisError, OSError) as error:
        raise BrokerUnavailable(f"the broker at {mask_url(broker_url)} does not answer ({error})") from None
    finally:
        app.close()
    return address


def answer(broker_url: str, address: str, reply: Mapping[str, Any]) -> None:
    """A host's answer; a broker that is away swallows it."""
    if not address.startswith(_PREFIX):
        return
    client = connect(broker_url)
    with contextlib.suppress(redis.exceptions.RedisError, OSError), contextlib.closing(client):
        pipeline = client.pipeline()
        pipeline.rpush(address, json.dumps(reply))
        pipeline.expire(address, _KEEP_SECONDS)
        pipeline.execute()


def answers(broker_url: str, address: str, wait_seconds: float) -> Iterator[dict[str, Any]]:
    """The answers that come within `wait_seconds`; stop asking when all are there."""
    end = time.monotonic() + wait_seconds
    client = connect(broker_url)
    with contextlib.suppress(redis.exceptions.RedisError, OSError), contextlib.closing(client):
        while (left := end - time.monotonic()) > 0:
            # Below the socket's own time-out.
            found: Any = client.blpop([address], timeout=min(left, 2.0))
            if found is not None:
                yield json.loads(found[1])
