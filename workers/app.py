"""The worker process: `python -m workers.app`.

A Celery worker with the threads pool, whose messages are hints. Around it: the
state directory's lock, the incarnation with its heartbeat, the one App Server that
all calls share, and the duties that go on whatever the broker does.
Source: design of the farm, "Processes"; rules of the protocol, 4, 6, 34, 43.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from celery import Celery, signals

from shared.base.errors import BrokerUnavailable, NotSent, StoreError, StoreUnavailable, UsageError
from shared.base.log import configure_logging, get_logger
from shared.base.patience import wait_for_service
from shared.base.settings import Settings, load_settings
from shared.broker.app import make_app, worker_options
from shared.broker.client import check as check_broker
from shared.broker.names import TASK
from shared.broker.replies import CLEAN_TASK
from shared.broker.wakeups import Wakeups
from shared.hub.git import Git
from shared.journal import claims
from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.journal.questions import RECOVER
from workers.appserver.service import AppServerService
from workers.call.recover import recover_call
from workers.call.run import run_agent_call
from workers.claim import Hands
from workers.cleaning import clean_and_answer
from workers.duties import Slots, StopFlags
from workers.incarnation import Incarnation
from workers.ops.builtin import register_builtin
from workers.ops.run import run_op
from workers.progress import ProgressBoard
from workers.questions import Questions
from workers.queues import Queues, start_thread
from workers.state_dir import StateDirectory
from workers.tasks import Caller
from workers.worker import Worker
from workers.worktrees.mirror import Mirrors

_DEAD_STATUS = 3
_INTERRUPT_GRACE_SECONDS = 8.0
log = get_logger()


class Application:
    """One worker process, from its settings to its exit status."""

    def __init__(self, settings: Settings) -> None:
        """Take the state directory and find the services.

        Raises:
            UsageError: something a person has to mend; nothing was written to the journal.
        """
        if not settings.database_url or not settings.broker_url:
            missing = "CRW_DATABASE_URL" if not settings.database_url else "CRW_BROKER_URL"
            raise UsageError(f"a worker needs to know where its services are: set {missing}")
        self.settings = settings
        self.state = StateDirectory(settings.state_dir, settings.host_name, settings.min_free_bytes)
        database = Database(
            settings.database_url, process=f"worker {settings.host_name}", pool_size=settings.concurrency
        )
        wait_for_service(database.check, StoreUnavailable)
        wait_for_service(lambda seconds: check_broker(settings.broker_url or "", seconds), BrokerUnavailable)
        hands = Hands()
        appserver = AppServerService(
            settings, settings.state_dir, pass_fds=(self.state.lock_fd,), before_send=self._check_lease
        )
        incarnation = Incarnation(
            settings,
            self.state,
            hands,
            codex_version=appserver.codex_version(),
            account=appserver.account_digest(),
            on_dead=self._die,
            on_orphan=self._let_go,
        )
        incarnation.register(database)
        mirrors = Mirrors(settings.state_dir, Git(settings.git.timeout_seconds))
        # The state directory is this worker's alone, so what is locked there was locked by the dead.
        mirrors.sweep_stale_locks()
        register_builtin(database)
        self.worker = Worker(
            settings=settings,
            database=database,
            writer=JournalWriter(database, host=settings.host_name),
            incarnation=incarnation,
            wakeups=Wakeups(settings.broker_url),
            hands=hands,
            mirrors=mirrors,
            appserver=appserver,
            progress=ProgressBoard(database),
        )
        self._slots = Slots(self.worker, Caller(self.worker, run_op, run_agent_call))
        self._queues = Queues(self.worker)
        self._stop_asked = threading.Event()

    def run(self) -> int:
        """Work until a signal ends it.

        Returns:
            The exit status: 0 after an ordered stop.
        """
        self.worker.incarnation.start(self.worker.database)
        start_thread(self._slots.idle_loop, "idle")
        start_thread(StopFlags(self.worker).loop, "stop-flags")
        start_thread(Questions(self.worker, {RECOVER: recover_call}).loop, "questions")
        start_thread(self._queues.watch_loop, "queues")
        start_thread(lambda: self.worker.progress.loop(self.worker.stopping), "progress")
        draining = start_thread(self._drain, "drain")
        app = self._celery()
        options = worker_options(self.worker.host, self.settings.concurrency, self._queues.names())
        celery_worker = app.Worker(**options)
        log.info("up", host=self.worker.host, worker=self.worker.incarnation.worker_id)
        celery_worker.start()
        if not self._stop_asked.is_set():
            # Celery ended by itself: whatever it was, the supervisor starts a fresh process.
            log.error("consumer_ended", status=celery_worker.exitcode)
            self._stop_asked.set()
            draining.join()
            return celery_worker.exitcode or 1
        draining.join()
        return 0

    def _celery(self) -> Celery:
        app = make_app(self.settings.broker_url or "")
        slots, stop_asked = self._slots, self._stop_asked

        @app.task(name=TASK)  # type: ignore[untyped-decorator]
        def call(call_id: str, request_id: str) -> None:
            slots.take_message(call_id, request_id)

        @app.task(name=CLEAN_TASK)  # type: ignore[untyped-decorator]
        def clean(run_id: str, address: str) -> None:
            clean_and_answer(self.worker, run_id, address)

        self._queues.attach(app)
        # Weak references would be gone with this method.
        signals.worker_shutting_down.connect(lambda **_: stop_asked.set(), weak=False)
        signals.setup_logging.connect(_quiet_celery, weak=False)
        return app

    def _drain(self) -> None:
        """Wait for the signal, then end in order: unsent calls go back, sent ones get a grace, the rest is left."""
        self._stop_asked.wait()
        worker = self.worker
        log.info("stopping", calls=len(worker.hands.all()))
        worker.stopping.set()
        end = time.monotonic() + self.settings.drain_seconds
        while (hands := worker.hands.all()) and time.monotonic() < end:
            for hand in hands:
                if hand.claim is not None and not hand.claim.sent:
                    hand.tell("worker_stopped")
            time.sleep(0.05)
        worker.hands.tell_all("worker_stopped")
        # Turns are being interrupted now; what is seen ended is held, not unknown.
        end = time.monotonic() + _INTERRUPT_GRACE_SECONDS
        while worker.hands.all() and time.monotonic() < end:
            time.sleep(0.05)
        self._stop_server()
        try:
            worker.incarnation.stop(worker.database)
        except StoreError as error:
            log.warning("stop_not_recorded", why=str(error))
        log.info("stopped", left=len(worker.hands.all()))
        # Celery waits for its threads without limit; those that are left wait for turns nobody will read.
        os._exit(0)

    def _die(self) -> None:
        self._stop_server()
        os._exit(_DEAD_STATUS)

    def _stop_server(self) -> None:
        self.worker.appserver.stop()

    def _check_lease(self, method: str, _params: Mapping[str, Any]) -> None:
        # Asked right before each frame: a worker that slept past its lease must not wake up sending.
        if not self.worker.incarnation.may_send():
            raise NotSent(f"{method} was not sent: this worker's lease has run out unconfirmed")

    def _let_go(self, call_id: str, fence: int, grant_id: str) -> None:
        # A claim whose COMMIT was answered to nobody, or one that was let go while the database was away.
        released = claims.release_grant(self.worker.database, call_id, fence, grant_id)
        log.warning("orphan_released" if released else "orphan_kept", call=call_id)


def _quiet_celery(**_: Any) -> None:
    logging.basicConfig(level=logging.WARNING, format="celery: %(message)s")


def main() -> int:
    """Run a worker with the settings in force; the exit status is 2 for what a person has to mend."""
    try:
        settings = load_settings()
        configure_logging("worker", settings.log_level)
        application = Application(settings)
    except (UsageError, StoreError) as error:
        print(f"crw worker: {error}", file=sys.stderr)
        return 2
    return application.run()


if __name__ == "__main__":
    sys.exit(main())
