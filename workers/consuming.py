"""How this worker takes messages: as hints, so nothing is acknowledged, and Celery's events go out in groups.

A message that a dying worker had taken is lost, and the outbox sends another: what
the acknowledgement of a hint would buy is a duplicate an hour later. It costs two
commands and two clients a message. Events are for people who watch Flower: gathered
for a quarter of a second they cost one message instead of three a call.
Measured on a call that does nothing: the two were more than half of the worker's time.
Source: design of the farm, "The life of a call"; rules of the protocol, 36.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, bootsteps
from vine import promise

_EVENTS_SECONDS = 0.25
_EVENTS_AT_ONCE = 500


class TakeHints(bootsteps.StartStopStep):  # type: ignore[misc]
    """Made anew by Celery with each connection, after its consumer and before the first message."""

    requires = ("celery.worker.consumer:Tasks",)

    def start(self, parent: Any) -> None:
        """Set the new consumer and the new dispatcher of events."""
        # What is not noted as delivered needs no acknowledgement. On the channel, not with the queues: queues that
        # this worker left and comes back to are consumed like the others.
        noted = parent.task_consumer.channel.qos
        noted.append = noted.ack = _note_nothing
        events = parent.event_dispatcher
        if events is None or parent.hub is None:
            return
        # Each event would be sent as soon as the loop comes round. It still has to come round: a call's last event says
        # that its slot is free, and a loop that had no slot for another message sleeps until somebody wakes it.
        look_again = promise(lambda: None)
        events.on_send_buffered = lambda: parent.hub.call_soon(look_again)
        events.buffer_limit = _EVENTS_AT_ONCE
        # Ends with the connection: Celery cancels what was registered between its start and its loop.
        parent.hub.call_repeatedly(_EVENTS_SECONDS, events.flush)


def _note_nothing(*_message_and_tag: Any) -> None:
    """In place of kombu's notes in Redis about messages that are not acknowledged yet."""


def take_hints(app: Celery) -> None:
    """Let the worker of this application consume so."""
    app.steps["consumer"].add(TakeHints)
