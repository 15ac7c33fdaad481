"""The calls this worker has in hand: take one, lose one, know them all.

A grant is noted here before the database is asked for it, so that every claim the
database lists for this worker is either known or an orphan: one whose COMMIT was
answered to nobody, which goes back. Source: rules of the protocol, 22.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.base.errors import CrwError
from shared.journal.append import Claim

LEFT_TO_OTHERS = frozenset({"lost", "worker_stopped"})
"""The reasons for which a call stops without an end of its own: somebody else has it, or goes on with it."""


class CallStopped(CrwError):
    """The call was told to end early. `reason` says why: `lost`, `cancel`, `pause`, `deadline`, `worker_stopped`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the call was stopped: {reason}")
        self.reason = reason


@dataclass
class Hand:
    """One call in this worker's hands, from before it asks for the claim until it is done with it.

    Shape: `claim` is None until the claim is granted; `granted_at` on the monotonic
    clock; `lost` is set when the database no longer lists the claim as this worker's,
    `stop` holds the first word that said the call should end.
    """

    call_id: str
    grant_id: str
    claim: Claim | None = None
    granted_at: float = 0.0
    lost: threading.Event = field(default_factory=threading.Event)
    stop: str | None = None
    changed: threading.Event = field(default_factory=threading.Event)

    def should_stop(self) -> str | None:
        """Why this call should end early, or None."""
        if self.lost.is_set():
            return "lost"
        if self.stop is None and self._past_deadline():
            self.tell("deadline")
        return self.stop

    def tell(self, reason: str) -> None:
        """Ask whoever works on the call to end it; the first reason stays."""
        if self.stop is None:
            self.stop = reason
        self.changed.set()

    def lose(self) -> None:
        """The claim is another's, or nobody's: nothing may be written or sent under it any more."""
        self.lost.set()
        self.changed.set()

    def _past_deadline(self) -> bool:
        limit = self.claim.deadline_seconds if self.claim is not None else None
        return limit is not None and time.monotonic() - self.granted_at > limit


class Hands:
    """All calls in this worker's hands, by grant. Safe from any thread."""

    def __init__(self) -> None:
        self._by_grant: dict[str, Hand] = {}
        self._lock = threading.Lock()

    def begin(self, call_id: str) -> Hand:
        """Note a grant that is about to be asked for."""
        hand = Hand(call_id, str(uuid.uuid4()))
        with self._lock:
            self._by_grant[hand.grant_id] = hand
        return hand

    def end(self, hand: Hand) -> None:
        """The worker is done with the call, however that came."""
        with self._lock:
            self._by_grant.pop(hand.grant_id, None)

    def all(self) -> list[Hand]:
        """What is in hand now."""
        with self._lock:
            return list(self._by_grant.values())

    def claimed(self) -> list[Hand]:
        """What is in hand and granted."""
        return [hand for hand in self.all() if hand.claim is not None]

    def of(self, claim: Claim) -> Hand:
        """The hand that holds a claim; one that is told `lost` when there is none."""
        with self._lock:
            hand = self._by_grant.get(claim.grant_id)
        if hand is None:
            hand = Hand(claim.call_id, claim.grant_id, claim)
            hand.lose()
        return hand

    def tell_all(self, reason: str) -> None:
        """Ask everybody to end."""
        for hand in self.all():
            hand.tell(reason)

    def compare(self, listed: Iterable[tuple[str, str]], known_before: Iterable[Hand]) -> list[str]:
        """Hold the database's list of this worker's claims against what is in hand.

        Args:
            listed: `(call id, grant id)` of each claim the database has for this worker.
            known_before: what was in hand and granted before the list was read: what the list lacks of it is lost.

        Returns:
            The grants that nobody here knows.
        """
        grants = {grant for _, grant in listed}
        for hand in known_before:
            if hand.grant_id not in grants:
                hand.lose()
        with self._lock:
            return [grant for grant in grants if grant not in self._by_grant]
