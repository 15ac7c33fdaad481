"""The whole farm on one machine: embedded services, then the farm's own processes, all watched and all stopped.

`Laptop` is what `crw up` and `crw demo` have in common. Order up: PostgreSQL, Valkey,
schema, processes. Order down: processes side by side, Valkey, PostgreSQL. A process or
server that ends by itself ends all the others, or is started again at a limited rate
once `keep_up` was called. It is the production code with services from wheels: every
process is started by module name and reads its settings from its environment, as it
would under systemd.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psycopg2
from sqlalchemy import make_url

from deploy.embedded import Postgres, Valkey
from deploy.processes import Child, ChildDied, listen, stop_all
from deploy.restarts import Restarts
from deploy.server import Server
from shared.base.errors import UsageError
from shared.base.settings import FlowerSettings
from shared.journal.upgrading import upgrade

DATABASE = "crw"
# Until the processes hold their leases; a loaded machine takes its time to import.
START_SECONDS = 90.0
_LOG_LIMIT_BYTES = 10 << 20
_LOOK_SECONDS = 0.1


class Stopped(BaseException):
    """A signal asked the whole farm to stop. Not an `Exception`: nothing on the way may take it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread at the first SIGINT, SIGTERM or SIGHUP; ignore further ones.

    They stay ignored until the context ends, so that an impatient second Ctrl-C cannot
    leave half a farm behind.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    # Who started this under nohup wants it to outlive the terminal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Laptop:
    """Services and processes of one machine. Use as a context manager, from the main thread.

    Writes: `services/` and `log/` below the directory.
    """

    def __init__(self, directory: Path, *, stop_seconds: float) -> None:
        """Prepare; nothing runs yet.

        Args:
            directory: where data and logs are kept.
            stop_seconds: grace of the processes when the farm stops.

        Raises:
            UsageError: the directory cannot be written.
        """
        self.logs = directory / "log"
        self._stop_seconds = stop_seconds
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.logs.mkdir(exist_ok=True)
            self.postgres = Postgres(directory / "services" / "postgres")
            self.valkey = Valkey(directory / "services" / "valkey")
        except OSError as error:
            raise UsageError(
                f"{directory} cannot be written ({error.strerror}); name a directory that can, with CRW_STATE_DIR"
            ) from None
        self._children: list[Child] = []
        self._restarts: Restarts | None = None
        self._open = contextlib.ExitStack()

    @property
    def database_url(self) -> str:
        """The journal's URL."""
        return self.postgres.database_url(DATABASE)

    @property
    def broker_url(self) -> str:
        """The broker's URL."""
        return self.valkey.url

    def __enter__(self) -> Laptop:
        try:
            # Closing is registered first: a server that was interrupted while it started is stopped as well.
            for server in (self.postgres, self.valkey):
                self._open.callback(server.close)
                server.start()
            _make_database(self.postgres)
            upgrade(self.database_url)
            self._open.callback(self._stop_children)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()

    def start(
        self,
        name: str,
        module: str,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
        *,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start one of the farm's processes; its log is `log/<name>.log`."""
        log = self.logs / f"{name}.log"
        if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        services = {"CRW_DATABASE_URL": self.database_url, "CRW_BROKER_URL": self.broker_url}
        child = Child(
            name,
            module,
            arguments,
            log=log,
            environment={**environment, **services},
            cwd=self.logs.parent,
            pass_fds=pass_fds,
        )
        self._children.append(child)
        child.start()
        return child

    def kill(self, child: Child) -> None:
        """SIGKILL to one process, which is not missed from then on."""
        self._children.remove(child)
        child.kill()

    def start_flower(self, environment: Mapping[str, str], flower: FlowerSettings, password: str) -> str:
        """Start Flower on its configured port, or on a free one when that is taken. Returns its address."""
        # Kept open here as well: a Flower that is started again serves the same port.
        listening = self._open.enter_context(listen(flower.address, flower.port))
        port = listening.getsockname()[1]
        secret = {"CRW_FLOWER__PASSWORD": password, "CRW_FLOWER__USER": flower.user}
        number = listening.fileno()
        self.start("flower", "deploy.flower", {**environment, **secret}, [str(number)], pass_fds=[number])
        return f"http://{flower.address}:{port}"

    def keep_up(self, say: Callable[[str], None]) -> None:
        """From now on start again what ends by itself, and say so; what dies again and again still ends the farm."""
        self._restarts = Restarts(say)

    def check(self) -> None:
        """Raise when anything that should run has ended and is not to come back.

        Raises:
            ChildDied: it names the process and the end of its log.
        """
        watched: list[Child | Server] = [self.postgres, self.valkey, *self._children]
        for each in watched:
            if each.ended is None:
                continue
            if self._restarts is None or not self._restarts.bring_back(each, time.monotonic()):
                raise _death(each)

    def wait_until(self, predicate: Callable[[], bool], timeout_seconds: float | None = None) -> bool:
        """Watch over the farm until `predicate` holds.

        Returns:
            Whether it did within the time; without a limit it is waited for as long as the farm runs.

        Raises:
            ChildDied: something ended meanwhile.
        """
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not predicate():
            self.check()
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _stop_children(self) -> None:
        stop_all(self._children, self._stop_seconds)


def _death(ended: Child | Server) -> ChildDied:
    if isinstance(ended, Child):
        return ended.death()
    what = f"its log is {ended.log}" if ended.is_intact() else f"what it kept in {ended.directory} is gone"
    return ChildDied(f"{ended.name} ended with status {ended.ended}; {what}", name=ended.name)


def _make_database(server: Postgres) -> None:
    url = make_url(server.url)
    connection = psycopg2.connect(host=url.query["host"], user=url.username, dbname=url.database)
    try:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("select 1 from pg_database where datname = %s", (DATABASE,))
        if cursor.fetchone() is None:
            cursor.execute(f"create database {DATABASE}")
    finally:
        connection.close()


def state_environment(state_dir: Path, host_name: str) -> dict[str, str]:
    """The variables that make a process a host of its own."""
    return {"CRW_STATE_DIR": str(state_dir), "CRW_HOST_NAME": host_name, "PYTHONUNBUFFERED": "1"}
