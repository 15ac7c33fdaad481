"""A worker that dies at a row of its own, without any handler of an exception."""

from __future__ import annotations

from typing import Any, NoReturn

from shared.journal.append import Claim, JournalWriter
from shared.model.rows import NewCallRow


class Died(BaseException):
    """The worker is gone: no handler of an exception runs on."""


def no_connection() -> NoReturn:
    raise Died


class MortalWriter:
    """A journal writer whose process dies at a row."""

    def __init__(self, writer: JournalWriter, at: str) -> None:
        self._writer = writer
        self._when, _, word = at.partition(":")
        self._word, _, count = word.partition("#")
        self._left = int(count or 1)
        self._dead = at == "now:"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, claim: Claim, *rows: NewCallRow) -> Any:
        return self._pass(self._writer.append, claim, rows)

    def note(self, claim: Claim, *rows: NewCallRow) -> None:
        self._pass(self._writer.note, claim, rows)

    def _pass(self, write: Any, claim: Claim, rows: tuple[NewCallRow, ...]) -> Any:
        if self._dead:
            raise Died
        here = any(row.event == self._word for row in rows)
        self._left -= here
        if here and self._left == 0 and self._when == "before":
            self._dead = True
            raise Died
        written = write(claim, *rows)
        if here and self._left == 0:
            self._writer.flush()
            self._dead = True
            raise Died
        return written
