"""Send calls to the workers: one connection, one pipeline for many messages, nothing declared on the way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from kombu import Connection, Producer
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from shared.base.errors import BrokerUnavailable
from shared.base.log import mask_url
from shared.broker.app import make_app
from shared.broker.client import connect
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


class Publisher:
    """Publishes calls. Safe to use from several threads; a send blocks at most for the socket timeout."""

    def __init__(self, broker_url: str) -> None:
        self._url = broker_url
        self._app = make_app(broker_url)
        self._client = connect(broker_url)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._producer: Producer | None = None

    def send(self, publications: Sequence[Publication]) -> None:
        """Send one message for each publication.

        Raises:
            BrokerUnavailable: the broker did not take them, or its answer was lost. They may have gone out;
                the outbox sends them again and the claim sorts it out.
        """
        if not publications:
            return
        with self._lock:
            for last_chance in (False, True):
                try:
                    self._send(publications)
                    return
                except (KombuError, RedisError, OSError) as error:
                    self._forget_connection()
                    # A broker that restarted left a dead connection behind: a fresh one may work at once.
                    if last_chance:
                        raise BrokerUnavailable(
                            f"the broker at {mask_url(self._url)} does not answer ({type(error).__name__})"
                        ) from error

    def backlog(self, queue: str) -> int:
        """How many messages lie on a queue.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        try:
            # Without priorities and prefixes a queue is one list of that name.
            return int(self._client.llen(queue))
        except (RedisError, OSError) as error:
            raise BrokerUnavailable(f"the broker at {mask_url(self._url)} does not answer ({error})") from error

    def close(self) -> None:
        """Close the connection; a later send opens another."""
        with self._lock:
            self._forget_connection()

    def _send(self, publications: Sequence[Publication]) -> None:
        producer = self._open()
        with producer.batch():
            for publication in publications:
                body, headers, properties = self._message(publication)
                # The anonymous exchange routes to the queue named by the key: no declaration, no look-up.
                producer.publish(
                    body,
                    exchange="",
                    routing_key=publication.queue,
                    serializer="json",
                    headers=headers,
                    retry=False,
                    **properties,
                )

    def _message(self, publication: Publication) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        text = readable(publication.run_id, publication.node_id, publication.role, publication.label)
        message = self._app.amqp.as_task_v2(
            task_id(publication.call_id, publication.request_id, publication.tries),
            TASK,
            args=(publication.call_id, publication.request_id),
            shadow=shadow_name(publication.kind, publication.role),
            argsrepr=f"({publication.call_id}, {publication.request_id})",
            kwargsrepr=text,
            ignore_result=True,
        )
        return message.body, message.headers, message.properties

    def _open(self) -> Producer:
        if self._producer is None:
            self._connection = self._app.connection_for_write()
            self._producer = Producer(self._connection.default_channel, auto_declare=False)
        return self._producer

    def _forget_connection(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(KombuError, RedisError, OSError, AttributeError):
                connection.close()
