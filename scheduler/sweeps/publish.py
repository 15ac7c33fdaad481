"""Publish what is due in the outbox: calls that nobody has claimed yet.

A row stays until its call is claimed, ended or withdrawn; publishing moves its next
time (30 s doubling to 15 min). While a queue already holds more messages than there
are calls to claim, more of them would help nobody.
Source: rules of the protocol, 36.
"""

from __future__ import annotations

from shared.base.log import get_logger
from shared.broker.publish import Publisher
from shared.journal import outbox
from shared.journal.database import Database
from shared.journal.outbox import Publication

_BATCH = 200
log = get_logger()


class PublishDue:
    """The publishing sweep."""

    name = "publish"

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher

    def pass_once(self) -> int:
        """Publish what is due.

        Raises:
            BrokerUnavailable: the broker is away; the rows come due again.
            StoreError: the database is.
        """
        published = 0
        while due := outbox.take_due(self._database, _BATCH):
            wanted = self._leave_full_queues(due)
            self._publisher.send(wanted)
            published += len(wanted)
            if len(due) < _BATCH:
                break
        return published

    def _leave_full_queues(self, due: list[Publication]) -> list[Publication]:
        waiting = outbox.count(self._database)
        backlog = {queue: self._publisher.backlog(queue) for queue in {item.queue for item in due}}
        for queue, messages in backlog.items():
            if messages > waiting:
                log.warning("queue_full", queue=queue, messages=messages, calls=waiting)
        return [item for item in due if backlog[item.queue] <= waiting]

    def forget(self) -> None:
        """A pass remembers nothing."""
