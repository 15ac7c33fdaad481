"""A call as the message that Celery's workers read from Redis: what Celery and kombu would write, member by member.

Written here because kombu's own way to a Redis list makes a client and looks three times
at its settings for each message: most of what publishing costs. Tests hold these bytes
against what Celery sends for the same task, and a stock worker reads them.
Source: Celery's message protocol 2; kombu's virtual transports (body in base64, a list a queue).
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from base64 import b64encode
from typing import Any, Protocol

from shared.broker.names import TASK, readable, shadow_name, task_id


class Publication(Protocol):
    """What the outbox hands out. `tries` counts publications, this one included."""

    @property
    def call_id(self) -> str: ...
    @property
    def request_id(self) -> str: ...
    @property
    def tries(self) -> int: ...
    @property
    def queue(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def role(self) -> str | None: ...
    @property
    def node_id(self) -> str | None: ...
    @property
    def label(self) -> str | None: ...


_NO_CONTINUATION = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
# Members that say nothing about a call.
_HEADERS: dict[str, Any] = {
    "lang": "py", "task": TASK, "eta": None, "expires": None, "group": None, "group_index": None, "retries": 0,
    "timelimit": [None, None], "parent_id": None, "origin": f"gen{os.getpid()}@{socket.gethostname()}",
    "ignore_result": True, "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
}  # fmt: skip
_PROPERTIES = {"reply_to": "", "delivery_mode": 2, "priority": 0, "body_encoding": "base64"}


def message(publication: Publication) -> str:
    """The text that stands in the queue's list. It names the call: never a prompt, a path or a secret."""
    name = task_id(publication.call_id, publication.request_id, publication.tries)
    body = json.dumps([[publication.call_id, publication.request_id], {}, _NO_CONTINUATION])
    headers = {
        **_HEADERS, "id": name, "root_id": name, "shadow": shadow_name(publication.kind, publication.role),
        "argsrepr": f"({publication.call_id}, {publication.request_id})",
        "kwargsrepr": readable(publication.run_id, publication.node_id, publication.role, publication.label),
    }  # fmt: skip
    properties = {
        **_PROPERTIES, "correlation_id": name, "delivery_tag": str(uuid.uuid4()),
        "delivery_info": {"exchange": "", "routing_key": publication.queue},
    }  # fmt: skip
    return json.dumps({
        "body": b64encode(body.encode()).decode(), "content-encoding": "utf-8", "content-type": "application/json",
        "headers": headers, "properties": properties,
    })  # fmt: skip
