"""Send calls to the workers: one connection, one command a queue for many messages, nothing declared on the way."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from redis.exceptions import RedisError

from shared.base.errors import BrokerUnavailable
from shared.base.log import mask_url
from shared.broker.client import connect
from shared.broker.messages import Publication, message

__all__ = ["Publication", "Publisher"]


class Publisher:
    """Publishes calls. Safe to use from several threads; a send blocks at most for twice the socket timeout."""

    def __init__(self, broker_url: str) -> None:
        self._url = broker_url
        self._client = connect(broker_url)
        self._lock = threading.Lock()

    def send(self, publications: Sequence[Publication]) -> None:
        """Send one message for each publication, those of a queue in their order.

        Raises:
            BrokerUnavailable: the broker did not take them, or its answer was lost. They may have gone out;
                the outbox sends them again and the claim sorts it out.
        """
        queues: dict[str, list[str]] = {}
        for publication in publications:
            queues.setdefault(publication.queue, []).append(message(publication))
        with self._lock:
            for queue, messages in queues.items():
                self._push(queue, messages)

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
            self._client.close()

    def _push(self, queue: str, messages: list[str]) -> None:
        for last_chance in (False, True):
            try:
                self._client.lpush(queue, *messages)
                return
            except (RedisError, OSError) as error:
                # A broker that restarted left a dead connection behind, which is dropped now: a fresh one may work.
                if last_chance:
                    raise BrokerUnavailable(
                        f"the broker at {mask_url(self._url)} does not answer ({type(error).__name__})"
                    ) from error
