"""Strike one statement of a psycopg2 program, whichever: statements are found while it runs, not listed by hand.

Every connection that is opened inside `Striker.installed` counts its statements and commits. The
one whose number is `at` fails as the real server fails: by an error that the server itself
raises, or by the end of the connection before or after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest


class Blow(StrEnum):
    """How a statement fails."""

    SERIALIZATION = "40001"
    DEADLOCK = "40P01"
    CUT_BEFORE = "the connection ends before it arrives"
    CUT_AFTER = "the connection ends before its answer arrives"


class Striker:
    """Shape: `seen` the statements so far, `commit` for a commit; `struck` the one that failed."""

    def __init__(self, admin: dict[str, Any], at: int | None = None, blow: Blow = Blow.DEADLOCK) -> None:
        self.seen: list[str] = []
        self.struck: str | None = None
        self._admin = admin
        self._at = at
        self._blow = blow
        self._lock = threading.Lock()

    @contextmanager
    def installed(self) -> Iterator[Striker]:
        """Connections that are opened in this block are struck."""
        connect = psycopg2.connect
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg2, "connect", lambda **given: connect(**given, connection_factory=self._factory()))
            self._connect = connect
            yield self

    def pass_by(self, connection: Any, statement: str, run: Callable[[], Any]) -> Any:
        """Run a statement, or strike it."""
        with self._lock:
            self.seen.append(" ".join(statement.split()))
            mine = len(self.seen) == self._at
        if not mine:
            return run()
        self.struck = self.seen[-1]
        if self._blow is Blow.CUT_BEFORE:
            with self._connect(**self._admin) as admin:
                # Waits until it is gone: what it held is free when the program asks again.
                admin.cursor().execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
            admin.close()
            return run()
        if self._blow is Blow.CUT_AFTER:
            run()
            connection.close()
            raise psycopg2.OperationalError("server closed the connection unexpectedly")
        raising = f"do $$ begin raise exception 'struck' using errcode = '{self._blow.value}'; end $$"
        psycopg2.extensions.cursor(connection).execute(raising)
        raise AssertionError("the server raised nothing")

    def _factory(self) -> type[psycopg2.extensions.connection]:
        striker = self

        class Cursor(psycopg2.extensions.cursor):
            def execute(self, query: Any, vars: Any = None) -> None:
                striker.pass_by(self.connection, _text(query), lambda: super(Cursor, self).execute(query, vars))

        class Connection(psycopg2.extensions.connection):
            def cursor(self, *args: Any, **given: Any) -> Any:
                return super().cursor(*args, **{"cursor_factory": Cursor, **given})

            def commit(self) -> None:
                if self.autocommit:
                    super().commit()
                else:
                    striker.pass_by(self, "commit", super().commit)

        return Connection


def _text(query: Any) -> str:
    return query.decode() if isinstance(query, bytes) else str(query)
