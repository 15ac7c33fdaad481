"""One generation of the App Server: its process, its handshake, its end.

The process leads a group of its own, dies with this one, and inherits the lock of
the state directory, so that the lock is free only when server and worker are gone.
One thread spawns the child and then waits for it: the kernel sends the
parent-death signal when the *thread* that spawned ends, so it must live as long.
Source: Task Monki document, "Process topology" and "shutdown"; protocol rules 4, 5.
"""

from __future__ import annotations

import contextlib
import resource
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from shared.base.command import die_with_parent, kill_group, marked
from shared.base.errors import Refused, SettingsError
from shared.base.log import get_logger
from workers.appserver.own_words import OwnWords
from workers.appserver.requests import Answerer
from workers.appserver.router import Router
from workers.appserver.rpc import BeforeSend, Rpc
from workers.appserver.runtime import read_user_agent
from workers.appserver.transport import Message, Transport

log = get_logger()

# The answers of a start share it.
_START_SECONDS = 30.0
_STOP_GRACE_SECONDS = 10.0
# Streams of text that nobody here reads; the completed items carry all of it.
_UNREAD = (
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "command/exec/outputDelta",
)


OnExit = Callable[[str, str], None]
"""Told a generation that ended and why: `stopped` where that was asked for, else its exit status."""


@dataclass(frozen=True)
class Launch:
    """Everything a start needs."""

    program: Path
    arguments: Sequence[str]
    environment: dict[str, str]
    home: Path
    log_file: Path
    request_timeout_seconds: float
    pass_fds: tuple[int, ...] = ()
    before_send: BeforeSend | None = None


class AppServer:
    """A running server. `generation` names this start; frames and answers belong to one generation."""

    def __init__(self, launch: Launch, on_exit: OnExit = lambda *_: None) -> None:
        self.generation = secrets.token_hex(8)
        self.version = ""
        self.router = Router()
        self.gone = threading.Event()
        # Threads the server has loaded: it unloads none, and each costs it memory and descriptors (measured).
        self.loaded: set[str] = set()
        self._launch = launch
        self._own_words = OwnWords(launch.log_file)
        self._on_exit = on_exit
        self._child: subprocess.Popen[bytes] | None = None
        self._spawned = threading.Event()
        self._exited = threading.Event()
        self._stopping = False
        self._spawn_error: OSError | None = None

    @classmethod
    def start(cls, launch: Launch, on_exit: OnExit = lambda *_: None) -> AppServer:
        """Spawn a server and shake hands once.

        Raises:
            SettingsError: its configuration is broken, or the program cannot be run.
            HostError: it ended or stayed silent during the handshake.
        """
        server = cls(launch, on_exit)
        threading.Thread(target=server._keep, name=f"app-server-{server.generation[:6]}", daemon=True).start()
        server._spawned.wait()
        if server._spawn_error is not None:
            raise SettingsError(f"{launch.program} cannot be run: {server._spawn_error}; correct codex.bin")
        try:
            server._shake_hands()
        except BaseException:
            server.stop(grace_seconds=0.0)
            raise
        log.info("app_server_started", generation=server.generation, version=server.version, pid=server.pid)
        return server

    @property
    def pid(self) -> int:
        """The server's process id, which is also its group's."""
        assert self._child is not None, "it was started"
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent to it."""
        return not self.gone.is_set()

    def stop(self, grace_seconds: float = _STOP_GRACE_SECONDS) -> bool:
        """End it in order (end of input, a grace), then its whole process tree.

        Returns:
            Whether it is gone; False when it outlived even that.
        """
        child = self._child
        if child is None:
            return True
        # One that has ended by itself stays so.
        self._stopping = self._stopping or self.alive
        tree = _descendants(child.pid)
        self._transport.close_input()
        # Its output ends before it does: what it still writes to its home must not be cut short.
        if not self._exited.wait(grace_seconds):
            log.warning("app_server_killed", generation=self.generation)
        kill_group(child, grace_seconds=0.0, give_up_seconds=_STOP_GRACE_SECONDS)
        # Sandboxed commands lead groups of their own; they normally die with their server.
        for process in tree:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._exited.wait(_STOP_GRACE_SECONDS)
        return child.poll() is not None

    def _keep(self) -> None:
        """Spawn the child, read it to its end, and say so: the life of this thread is the child's."""
        try:
            with self._own_words.open() as errors:
                child = subprocess.Popen(
                    [str(self._launch.program), *self._launch.arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=self._launch.home,
                    env=self._launch.environment,
                    start_new_session=True,
                    preexec_fn=_prepare_child,
                    pass_fds=self._launch.pass_fds,
                )
        except OSError as error:
            self._spawn_error = error
            self.gone.set()
            self._spawned.set()
            return
        assert child.stdin is not None and child.stdout is not None, "both are pipes"
        self._child = child
        self._transport = Transport(child.stdin, child.stdout)
        timeout = self._launch.request_timeout_seconds
        self.rpc = Rpc(self._transport, timeout_seconds=timeout, before_send=self._launch.before_send)
        self._answerer = Answerer(self.rpc)
        reader = threading.Thread(target=self._read, name=f"{threading.current_thread().name}-reader", daemon=True)
        with marked(child.pid):
            reader.start()
            self._spawned.set()
            reader.join()
            # Its output ended: what still runs of it can be heard by nobody.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_STOP_GRACE_SECONDS)
            kill_group(child, grace_seconds=0.0)
        why = f"exit status {child.returncode}"
        words = self._own_words.last()
        log.info("app_server_ended", generation=self.generation, exit_status=child.returncode, last_words=words)
        self._end(why)
        # Before whoever stops it goes on: the note must not come behind the end of its worker.
        self._on_exit(self.generation, "stopped" if self._stopping else why)
        self._exited.set()
        self._transport.close()

    def _read(self) -> None:
        try:
            self._transport.read_all(self._receive)
        finally:
            words = self._own_words.last()
            self._end(f"its output ended; its last words: {words}" if words else "its output ended")

    def _end(self, why: str) -> None:
        self.gone.set()
        self.rpc.end(why)
        self.router.end(why)
        self._answerer.close()

    def _receive(self, message: Message) -> None:
        if "method" not in message:
            self.rpc.receive(message)
        elif "id" in message:
            self._answerer.take(message)
        else:
            self.router.receive(message)

    def _shake_hands(self) -> None:
        params = {
            "clientInfo": {"name": "crw-farm", "title": None, "version": _own_version()},
            "capabilities": {"experimentalApi": True, "optOutNotificationMethods": list(_UNREAD)},
        }
        deadline = time.monotonic() + _START_SECONDS
        hello = self.rpc.request("initialize", params, timeout_seconds=_START_SECONDS)
        self.version = read_user_agent(str(hello.get("userAgent") or ""))
        self.rpc.send({"method": "initialized"})
        try:
            # A server with a broken configuration starts, warns, and runs on defaults; this request fails on it.
            config = self.rpc.request(
                "config/read", {"includeLayers": False}, timeout_seconds=max(0.0, deadline - time.monotonic())
            )
        except Refused as error:
            mend = f"mend codex.config or {self._launch.home / 'config.toml'}"
            raise SettingsError(f"the App Server's configuration is broken ({error}); {mend}") from None
        self.config: dict[str, Any] = config.get("config") or {}


def _prepare_child() -> None:
    """In the child before it runs: die with its parent, and have room for the descriptors of many threads."""
    die_with_parent()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _own_version() -> str:
    try:
        return version("crw-farm")
    except PackageNotFoundError:
        return "0"


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
