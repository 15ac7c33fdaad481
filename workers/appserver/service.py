"""The host's one App Server, started again under a new generation when it died.

Source: design of the farm, "Processes"; settled conflict of one server a host.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.errors import HostError, NotSent, SettingsError
from shared.base.log import get_logger
from shared.base.settings import Settings
from workers.appserver.connection import AppServerConnection
from workers.appserver.home import account_digest, admit_codex, find_mcp_servers, home_id, prepare_home
from workers.appserver.launch import find_unasked_servers, plan_arguments, plan_environment
from workers.appserver.process import AppServer, Launch
from workers.appserver.rpc import BeforeSend

log = get_logger()

_STARTS = 5
_STARTS_WITHIN_SECONDS = 60.0
_LOADED_THREADS = 200
_STOP_GRACE_SECONDS = 5.0
_HUNG_GRACE_SECONDS = 0.5


@dataclass(frozen=True)
class Started:
    """A server that was started: what a record of it names."""

    generation: str
    pid: int
    program: Path
    version: str


class AppServerService:
    """Starts the server when it is first needed and again after it died, at a limited rate.

    Args:
        pass_fds: descriptors the server inherits: the lock of the state directory.
        before_send: asked with method and params right before each frame; what it
            raises goes to the caller and the frame stays here. Where a worker
            compares its lease.
        on_stuck: told once that a server cannot be ended: from then on nothing is asked of any, since two must
            never share the home. Whoever has the service ends with it.
    """

    def __init__(
        self,
        settings: Settings,
        state_dir: Path,
        *,
        pass_fds: tuple[int, ...] = (),
        before_send: BeforeSend | None = None,
        on_stuck: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings.codex
        self._state_dir = state_dir
        self._pass_fds = pass_fds
        self._before_send = before_send
        self._began: Callable[[Started], None] = lambda started: None
        self._ended: Callable[[str, str], None] = lambda generation, reason: None
        self._on_stuck = on_stuck
        self._stuck: str | None = None
        self._lock = threading.Lock()
        self._server: AppServer | None = None
        self._held: weakref.WeakSet[AppServerConnection] = weakref.WeakSet()
        self._started_at: deque[float] = deque(maxlen=_STARTS)
        self._stopped = False
        self._home_id: str | None = None

    def watch(self, began: Callable[[Started], None], ended: Callable[[str, str], None]) -> None:
        """Be told of each server that starts, and of each that ends, with its reason; neither may block."""
        self._began, self._ended = began, ended

    @property
    def rate_limits(self) -> dict[str, Any]:
        """The account's windows as the living server last reported them; empty without one."""
        server = self._server
        return server.router.rate_limits if server is not None else {}

    def connection(self) -> AppServerConnection:
        """A connection to the live server; starts one when there is none.

        Whoever has a connection keeps its generation from being renewed: keep it as
        long as its threads matter, and let it go afterwards.

        Raises:
            SettingsError: it cannot be started as it is configured.
            NotSent: it was stopped, cannot be ended, or dies again and again; nothing was asked of it.
        """
        with self._lock:
            self._refuse_stuck()
            if self._stopped:
                raise NotSent("this worker's App Server was stopped")
            if self._server is not None and self._server.alive and self._is_worn(self._server):
                log.info("app_server_renewed", generation=self._server.generation, threads=len(self._server.loaded))
                self._started_at.clear()
                self._end_server()
            if self._server is None or not self._server.alive:
                # Of a server that died, processes may still be there; two must never share the home.
                self._end_server()
                self._server = self._start()
            connection = AppServerConnection(self._server, self._settings.models)
            self._held.add(connection)
            return connection

    def _end_server(self) -> None:
        if self._server is not None:
            if not self._server.stop():
                self._latch(self._server.generation, self._server.pid)
                self._refuse_stuck()
            self._server = None

    def _latch(self, generation: str, pid: int) -> None:
        if self._stuck is None:
            self._stuck = f"the App Server (pid {pid}) cannot be ended"
            log.error("app_server_stuck", generation=generation, pid=pid)
            self._on_stuck()

    def _refuse_stuck(self) -> None:
        if self._stuck is not None:
            raise NotSent(f"{self._stuck}, so none is asked for anything; this worker ends")

    def _is_worn(self, server: AppServer) -> bool:
        """Whether a server has loaded many threads and nobody works on any: it unloads none by itself."""
        return len(server.loaded) >= _LOADED_THREADS and not self._held

    def home_id(self) -> str:
        """The id of the home the server keeps its threads in."""
        with self._lock:
            if self._home_id is None:
                self._home_id = home_id(prepare_home(self._settings, self._state_dir))
            return self._home_id

    def end_generation(self, connection: AppServerConnection, *, shared: bool = False) -> bool:
        """End a connection's server, so that what it does not have on disk then never comes.

        Args:
            shared: end it also when others hold a connection to it.

        Returns:
            Whether it has ended; False when others use it, or it cannot be ended.
        """
        with self._lock:
            others = [
                held for held in self._held if held is not connection and held.generation == connection.generation
            ]
            if others and not shared and connection.alive:
                return False
        gone = connection.stop(_HUNG_GRACE_SECONDS if shared else _STOP_GRACE_SECONDS)
        if not gone:
            with self._lock:
                self._latch(connection.generation, connection.pid)
        return gone

    def stop(self) -> None:
        """End the server for good; requests that are open lose their answers."""
        with self._lock:
            self._stopped = True
            server, self._server = self._server, None
        if server is not None:
            server.stop()

    def codex_version(self) -> str:
        """The version of codex that serves this host. Raises SettingsError when none may."""
        return admit_codex(self._settings, prepare_home(self._settings, self._state_dir)).version

    def account_digest(self) -> str | None:
        """What two hosts with the same login have in common, for their registration."""
        return account_digest(prepare_home(self._settings, self._state_dir))

    def _start(self) -> AppServer:
        now = time.monotonic()
        if len(self._started_at) == _STARTS and now - self._started_at[0] < _STARTS_WITHIN_SECONDS:
            raise NotSent(
                f"the App Server was started {_STARTS} times within a minute and ended each time; "
                f"its own words are in {self._log_file}"
            )
        self._started_at.append(now)
        home = prepare_home(self._settings, self._state_dir)
        config, local_only = self._settings.config, self._settings.local_only
        program = admit_codex(self._settings, home).program
        launch = Launch(
            program=program,
            arguments=plan_arguments(config, local_only=local_only, mcp_servers=find_mcp_servers(home)),
            environment=plan_environment(home, config),
            home=home,
            log_file=self._log_file,
            request_timeout_seconds=self._settings.request_timeout_seconds,
            pass_fds=self._pass_fds,
            before_send=self._before_send,
        )
        try:
            server = AppServer.start(launch, lambda generation, reason: self._ended(generation, reason))
        except HostError as error:
            # Nothing of a call was asked of a server that did not come up.
            raise NotSent(f"the App Server did not start: {error}; its own words are in {self._log_file}") from error
        self._began(Started(server.generation, server.pid, program, server.version))
        self._refuse_unasked_servers(server)
        return server

    def _refuse_unasked_servers(self, server: AppServer) -> None:
        unasked = find_unasked_servers(server.config, self._settings.config) if self._settings.local_only else []
        if unasked:
            server.stop()
            raise SettingsError(
                f"the App Server has the MCP servers {', '.join(unasked)} enabled, which codex.config does not name; "
                "name them there, or remove them from its configuration"
            )

    @property
    def _log_file(self) -> Path:
        return self._state_dir / "log" / "app-server.log"
