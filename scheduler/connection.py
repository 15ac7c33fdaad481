"""The farm's services as a command or a script reaches them: the database, the wake-ups, and whether both answer.

Source: design of the farm, "Processes".
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from scheduler.following import Bell, Cursor
from scheduler.submitted import Run
from shared.base.errors import SettingsError, UsageError
from shared.base.settings import Settings, load_settings
from shared.broker.client import check as check_broker
from shared.journal.database import Database
from shared.journal.runs import RunState, run_state

GIVE_UP_SECONDS = 5.0


class FarmConnection:
    """The database and the wake-ups of one farm. Connects when it is first needed; close it, or use it in a `with`.

    Args:
        database_url, broker_url: over the settings.
        settings: instead of the ones in force.

    Raises:
        SettingsError: settings that cannot be used, or no database.
    """

    def __init__(
        self,
        database_url: str | None = None,
        broker_url: str | None = None,
        settings: Settings | None = None,
        *,
        process: str = "client",
    ) -> None:
        found = settings or load_settings()
        given = {"database_url": database_url, "broker_url": broker_url}
        self.settings = found.model_copy(update={name: url for name, url in given.items() if url is not None})
        if not self.settings.database_url:
            raise SettingsError("no database is named; set database_url in crw.toml, or CRW_DATABASE_URL")
        self.database = Database(self.settings.database_url, process=process)
        self._bell = Bell(self.settings.broker_url)
        self._checked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._bell.close()
        self.database.close()

    def check_database(self) -> None:
        """Refuse a database that cannot be used, once.

        Raises:
            StoreUnavailable, SchemaMismatch, UsageError: within five seconds.
        """
        if not self._checked:
            self.database.check(GIVE_UP_SECONDS)
            self._checked = True

    def check_services(self) -> None:
        """Refuse to go on without database and broker.

        Raises:
            StoreUnavailable, BrokerUnavailable, UsageError: within five seconds each.
        """
        self.check_database()
        if not self.settings.broker_url:
            raise SettingsError("no broker is named; set broker_url in crw.toml, or CRW_BROKER_URL")
        check_broker(self.settings.broker_url, GIVE_UP_SECONDS)

    def state(self, run: Run) -> RunState:
        """Where a run stands.

        Raises:
            UsageError: there is no such run.
        """
        self.check_database()
        state = run_state(self.database, str(run))
        if state is None:
            raise UsageError(f"there is no run {run}; 'crw flow ps --all' lists them")
        return state

    def cursor(self, run: Run, after: int = 0) -> Cursor:
        """A place in a run from which to follow it."""
        return Cursor(self.database, self._bell, str(run), after, self.settings.poll_seconds)

    def tell(self, run: Run) -> None:
        """Wake whoever drives, works on or follows a run."""
        self._bell.tell(str(run))
