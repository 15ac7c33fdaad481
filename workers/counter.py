"""Where the slots of a worker ask for their calls: those that ask while an answer is on its way share the next one.

Nobody waits for company: a slot that asks alone asks at once, in its own thread. Those
that come meanwhile wait, and when the answer is there the first of them asks for all.
So a burst costs a few transactions instead of one a call, and a single call none more.
Source: rules of the protocol, 22 and 38.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.base.errors import StoreError
from shared.journal.claims import Ask, Denied
from shared.journal.members import Claim

_ASKS_AT_ONCE = 64

Answer = Claim | Denied


@dataclass(eq=False)
class _Place:
    """One place in the queue. `turn` is set when its ask is answered, or when it is to ask for all."""

    ask: Ask
    turn: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.answer is not None or self.error is not None


class Counter:
    """Asks the journal for calls. Safe from any thread."""

    def __init__(self, ask_many: Callable[[Sequence[Ask]], Sequence[Answer]]) -> None:
        self._ask_many = ask_many
        self._lock = threading.Lock()
        self._waiting: list[_Place] = []
        self._busy = False

    def ask(self, ask: Ask) -> Answer:
        """The answer to one ask.

        Raises:
            StoreError: what the journal raised for the asks that went together; what was granted is not known.
        """
        place = _Place(ask)
        with self._lock:
            self._waiting.append(place)
            leads, self._busy = not self._busy, True
        if not leads:
            place.turn.wait()
        if not place.is_done:
            self._ask_for_all()
        if place.error is not None:
            raise place.error
        assert place.answer is not None
        return place.answer

    def _ask_for_all(self) -> None:
        with self._lock:
            together, self._waiting = self._waiting[:_ASKS_AT_ONCE], self._waiting[_ASKS_AT_ONCE:]
        try:
            for place, answer in zip(together, self._ask_many([place.ask for place in together]), strict=True):
                place.answer = answer
        except BaseException as error:  # noqa: BLE001 - whoever waits here must hear of anything that goes wrong
            said = error if isinstance(error, StoreError) else StoreError(f"calls were not asked for: {error}")
            for place in together:
                place.error = said
        with self._lock:
            successor = self._waiting[0] if self._waiting else None
            self._busy = successor is not None
        if successor is not None:
            successor.turn.set()
        for place in together:
            place.turn.set()
