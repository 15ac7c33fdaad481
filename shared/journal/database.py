"""The connection to Postgres: one engine a process, checked at start, no state in any session.

Everything works behind a pooler in transaction mode: READ COMMITTED (the server's
default for this database), no prepared statements by name, no advisory session
lock, no LISTEN. psycopg2's errors become the farm's own here and nowhere else.
Source: design of the farm, "The journal in Postgres".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg2
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from shared.base.errors import SettingsError, StoreUnavailable
from shared.base.log import mask_url
from shared.journal.meta import check_server
from shared.journal.postgres_errors import is_lost, is_retryable

T = TypeVar("T")

_SESSION: dict[str, Any] = {
    # Texts go as they are: neither the environment nor the database's own encoding says what they may hold.
    "client_encoding": "utf8",
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Database:
    """Postgres as one process sees it.

    Args:
        url: `postgresql+psycopg2://…`.
        process: shown in `pg_stat_activity` as the application's name.
    """

    def __init__(self, url: str, *, process: str, pool_size: int = 5) -> None:
        self.url = _parse_url(url)
        self.process = process
        options: dict[str, Any] = {
            "pool_size": pool_size,
            "max_overflow": pool_size,
            "pool_recycle": 1800,
            # The connection that was used last is used next: its server process is the warm one.
            "pool_use_lifo": True,
            "connect_args": {"application_name": f"crw-{process}", "connect_timeout": 5, **_SESSION},
        }
        self.engine: Engine = create_engine(self.url, isolation_level="READ COMMITTED", **options)
        # Connections of their own: to switch one to autocommit and back costs a round trip each time, and
        # what was never in a transaction has nothing to roll back on its return (measured: half the time).
        self._statements: Engine = create_engine(
            self.url, isolation_level="AUTOCOMMIT", pool_reset_on_return=None, **options
        )

    @contextmanager
    def statement(self) -> Iterator[Connection]:
        """A connection for one statement that is its own transaction: one round trip instead of three.

        Raises:
            StoreUnavailable: as `transaction`.
        """
        with self._translating(), self._statements.connect() as connection:
            yield connection

    def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of one statement, its own transaction, on psycopg2's cursor: a quarter of what a `Connection` costs.

        Raises:
            StoreUnavailable: as `transaction`. Other errors pass as psycopg2 raises them.
        """
        with self._translating():
            connection = self._statements.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute(statement, parameters)
            rows = [tuple(row) for row in cursor.fetchall()]
            cursor.close()
            return rows
        except psycopg2.Error as error:
            if not is_lost(error):
                raise
            connection.invalidate(error)
            raise self.unavailable(error) from error
        finally:
            connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, committed at the end of the block. Nothing is tried again.

        Raises:
            StoreUnavailable: Postgres cannot be reached. Other errors pass as SQLAlchemy raises them.
        """
        with self._translating(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, psycopg2.Error) and is_lost(error.orig):
                raise self.unavailable(error.orig) from error
            raise
        except psycopg2.Error as error:
            # SQLAlchemy hands the error of a refused raw connection through as it is.
            if is_lost(error):
                raise self.unavailable(error) from error
            raise

    def connect_raw(self, *, timeout_seconds: float = 5.0, statement_timeout_seconds: float | None = None) -> Any:
        """A psycopg2 connection of its own, in autocommit: for the writer and for heartbeats.

        Raises:
            psycopg2.OperationalError: Postgres cannot be reached.
        """
        _, arguments = self.engine.dialect.create_connect_args(self.url)
        arguments = {
            **arguments,
            "application_name": f"crw-{self.process}",
            "connect_timeout": max(2, round(timeout_seconds)),
            **_SESSION,
        }
        if statement_timeout_seconds is not None:
            arguments["options"] = f"-c statement_timeout={int(statement_timeout_seconds * 1000)}"
        connection = psycopg2.connect(**arguments)
        connection.autocommit = True
        return connection

    def check_writes(self, timeout_seconds: float = 5.0) -> None:
        """`check`, for a process that has to write.

        Raises:
            StoreUnavailable: also when the server takes no writes: it fails over, or is a standby.
        """
        self.check(timeout_seconds)
        with self.statement() as connection:
            if connection.execute(text("select current_setting('transaction_read_only')")).scalar() == "on":
                raise self.unavailable(StoreUnavailable("it takes no writes now"))

    def check(self, timeout_seconds: float = 5.0) -> None:
        """Whether this program can work on this database; gives up after `timeout_seconds`.

        Raises:
            StoreUnavailable: nobody answers.
            SchemaMismatch: the schema is another version's, or none.
            HistoryChanged: the server was restored or promoted, and nobody has accepted that.
            UsageError: the server is too old, or configured so that it could lose rows.
        """
        end = time.monotonic() + timeout_seconds
        while True:
            left = max(0.5, end - time.monotonic())
            try:
                connection = self.connect_raw(timeout_seconds=left, statement_timeout_seconds=left)
                try:
                    check_server(connection.cursor())
                finally:
                    connection.close()
                return
            except psycopg2.Error as error:
                # One more look while there is time: a server that is starting up refuses at first.
                if not is_retryable(error) or time.monotonic() + 0.3 > end:
                    raise self.unavailable(error) from None
            time.sleep(0.2)

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        """The sentence for a Postgres that does not answer."""
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        return StoreUnavailable(
            f"Postgres cannot be used at {mask_url(self.url.render_as_string(hide_password=False))} ({said}); "
            "start it, or correct CRW_DATABASE_URL"
        )

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()
        self._statements.dispose()


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # A port that is no number is a ValueError.
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql", "postgresql+psycopg2"):
        raise SettingsError(
            f"database_url {mask_url(url)} is none the farm can use; write postgresql+psycopg2://user@host/database"
        )
    return parsed.set(drivername="postgresql+psycopg2")


def retrying(closure: Callable[[], T], *, give_up_seconds: float = 30.0) -> T:
    """What `closure` returns; the whole closure again after a deadlock, a serialization failure or a lost connection.

    The closure holds one whole transaction and has to bear a repetition: where the
    answer to a COMMIT was lost, it runs again after it was stored.

    Raises:
        StoreUnavailable: it did not come through within `give_up_seconds`.
    """
    end = time.monotonic() + give_up_seconds
    pause = 0.02
    while True:
        try:
            return closure()
        except (DBAPIError, StoreUnavailable, psycopg2.Error) as error:
            if not isinstance(error, StoreUnavailable):
                original = error.orig if isinstance(error, DBAPIError) else error
                if not isinstance(original, psycopg2.Error) or not is_retryable(original):
                    raise
            if time.monotonic() + pause > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(1.0, pause * 2)


def clock(database: Database) -> datetime:
    """The database's time: the one clock that decides anything."""

    def read() -> datetime:
        with database.statement() as connection:
            now: datetime = connection.execute(text("select clock_timestamp()")).scalar_one()
            return now

    return retrying(read)
