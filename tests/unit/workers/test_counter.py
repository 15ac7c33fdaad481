"""Slots that ask for calls at the same moment ask together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.base.errors import StoreError, StoreUnavailable
from shared.journal.claims import Ask, Denied
from tests.waiting import wait_until
from workers.counter import Answer, Counter


class Journal:
    """Answers when it is let; notes what was asked for together."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.go_on = threading.Event()
        self.error: BaseException | None = None

    def answer(self, asks: Sequence[Ask]) -> list[Answer]:
        self.asked.append([ask.call_id for ask in asks])
        self.go_on.wait(10)
        if self.error is not None:
            raise self.error
        return [Denied(ask.call_id) for ask in asks]


def _ask(counter: Counter, call: str) -> Answer:
    return counter.ask(Ask(call, "q", f"g-{call}"))


@pytest.mark.req("RULE38")
def test_who_asks_while_an_answer_is_on_its_way_shares_the_next_one_and_hears_of_his_own_call() -> None:
    journal = Journal()
    counter = Counter(journal.answer)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(_ask, counter, "c0")
        wait_until(lambda: journal.asked, 5, "the first to ask")
        others = [pool.submit(_ask, counter, f"c{number}") for number in range(1, 5)]
        wait_until(lambda: len(counter._waiting) == 4, 5, "the others to queue")
        journal.go_on.set()
        assert [future.result(5) for future in (first, *others)] == [Denied(f"c{number}") for number in range(5)]
    assert journal.asked[0] == ["c0"] and sorted(journal.asked[1]) == ["c1", "c2", "c3", "c4"]
    assert _ask(counter, "c9") == Denied("c9")


def test_an_outage_is_heard_by_all_who_asked_together_and_the_next_ask_goes_out_again() -> None:
    journal = Journal()
    journal.error = StoreUnavailable("away")
    counter = Counter(journal.answer)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(_ask, counter, f"c{number}") for number in range(3)]
        journal.go_on.set()
        for future in futures:
            with pytest.raises(StoreUnavailable):
                future.result(5)
    journal.error = ValueError("what a surprise")
    with pytest.raises(StoreError, match="surprise"):
        _ask(counter, "c8")
    journal.error = None
    assert _ask(counter, "c9") == Denied("c9")
