"""The writer's queue: first in, first out; a group is a prefix of it.

A group starts as soon as somebody waits; who comes while it is on its way shares the
next one. Nobody lingers for more: the callers of one group prepare their next rows
while the other half's commit is on its way.
Source: rules of the protocol 31, 38, 45.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

from shared.base.errors import StoreError
from shared.journal.encoding import Encoded
from shared.journal.members import Appended, CallRows, Member
from shared.journal.parameters import Right

OBSERVATION_WAIT_SECONDS = 0.2
GROUP_MEMBERS = 256
GROUP_RUNS = 64
GROUP_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class Pending:
    """A member in the queue. `due` is when it must go even if nobody waits; 0 when somebody does.
    `outcome` is what its caller will hear."""

    member: Member
    encoded: Encoded
    future: Future[Appended]
    due: float = 0.0
    outcome: Appended | StoreError | None = None

    @property
    def right(self) -> Right:
        """The claim or lease it is written under."""
        return self.member.claim if isinstance(self.member, CallRows) else self.member.lease

    @property
    def name(self) -> str:
        """What the right is a right to: a call or a run."""
        return self.encoded.call_id or self.encoded.run_id


class MemberQueue:
    """What waits for the writer's thread. `put` from any thread, `next_group` from one."""

    def __init__(self) -> None:
        self._items: deque[Pending] = deque()
        self._changed = threading.Condition()
        self._waited_for = 0
        self._group: list[Pending] = []
        self._closed = False

    def put(self, item: Pending, *, wait: bool) -> None:
        """Add a member; `wait` says that a caller waits for it.

        Raises:
            StoreError: the queue is closed.
        """
        with self._changed:
            if self._closed:
                raise StoreError("the journal writer is closed: nothing can be appended any more")
            if wait:
                self._waited_for += 1
            else:
                item.due = time.monotonic() + OBSERVATION_WAIT_SECONDS
            self._items.append(item)
            self._changed.notify()

    def hurry(self) -> list[Pending]:
        """Make everything queued due now; returns it with the group that is on its way."""
        with self._changed:
            for item in self._items:
                self._waited_for += item.due != 0.0
                item.due = 0.0
            self._changed.notify()
            return [*self._group, *self._items]

    def close(self) -> None:
        """Take nothing more; what is queued is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def next_group(self) -> list[Pending]:
        """The longest prefix that fits one transaction; waits for one; empty when closed and handed out."""
        with self._changed:
            while not self._is_due():
                if self._closed:
                    return []
                self._changed.wait(max(0.0, self._items[0].due - time.monotonic()) if self._items else None)
            self._group = self._take()
            return self._group

    def is_due(self) -> bool:
        """Whether another group could start now."""
        with self._changed:
            return self._is_due()

    def _is_due(self) -> bool:
        return bool(self._items) and bool(self._waited_for or self._closed or self._items[0].due <= time.monotonic())

    def _take(self) -> list[Pending]:
        group: list[Pending] = []
        rights: dict[str, Right] = {}
        runs: set[str] = set()
        weight = 0
        while self._items and len(group) < GROUP_MEMBERS:
            item = self._items[0]
            weight += item.encoded.weight_bytes
            if group and (weight > GROUP_BYTES or not _fits(item, rights, runs)):
                break
            rights[item.name] = item.right
            runs.add(item.encoded.run_id)
            group.append(self._items.popleft())
            self._waited_for -= item.due == 0.0
            # How many rows a withdrawal writes is known only afterwards: it is a group of its own.
            if item.encoded.withdraw:
                break
        return group


def _fits(item: Pending, rights: dict[str, Right], runs: set[str]) -> bool:
    """Whether a member may stand in one group with the others."""
    if item.encoded.withdraw or len(runs | {item.encoded.run_id}) > GROUP_RUNS:
        return False
    # Two rights to the same thing (an old lease and a new one) are judged one after the other.
    return rights.get(item.name, item.right) is item.right
