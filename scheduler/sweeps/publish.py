"""Publish what is due in the outbox: calls that nobody has claimed yet.

A row stays until its call is claimed, ended or withdrawn; publishing moves its next
time (30 s doubling to 15 min). While a queue already holds more messages than there
are calls to claim, more of them would help nobody.
Source: rules of the protocol, 36.
"""

from __future__ import annotations

from shared.broker.publish import Publisher
from shared.journal import outbox
from shared.journal.database import Database

_BATCH = 200


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
            self._publisher.send(due)
            published += len(due)
            if len(due) < _BATCH:
                break
        return published

    def forget(self) -> None:
        """A pass remembers nothing."""
