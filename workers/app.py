"""The worker process: `python -m workers.app`.

A Celery worker with the threads pool, whose messages are hints. Around it: the
state directory's lock, the incarnation with its heartbeat, the one App Server that
all calls share, and the duties that go on whatever the broker does.
Source: design of the farm, "Processes"; rules of the protocol, 4, 6, 34, 43.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from celery import Celery, signals

from shared.base.command import mark_children
from shared.base.errors import BrokerUnavailable, NotSent, StoreError, StoreUnavailable, UsageError
from shared.base.garbage import collect_seldom
from shared.base.log import configure_logging, get_logger
from shared.base.patience import wait_for_service
from shared.base.reach import find_open_root
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
from shared.journal.questions import PROOFS, RECOVER
from workers.appserver.service import AppServerService
from workers.call.recover import recover_call
from workers.call.run import run_agent_call
from workers.claim import Hands
from workers.cleaning import clean_and_answer
from workers.consuming import take_hints
from workers.duties import Slots, StopFlags
from workers.ending import Ending
from workers.generations import Generations
from workers.health import Health
from workers.incarnation import Incarnation
from workers.janitor import Janitor
from workers.markers import Markers
from workers.ops.builtin import register_builtin
from workers.ops.run import run_op
from workers.progress import ProgressBoard
from workers.proofs.answer import answer_proofs
from workers.questions import Questions
from workers.queues import Queues, start_thread
from workers.state_dir import StateDirectory
from workers.tasks import Caller
from workers.worker import Worker
from workers.worktrees.mirror import Mirrors

# More calls than this share connections: each needs one for some milliseconds at a time.
_POOLED_CONNECTIONS = 16
_CHECK_SECONDS = 3.0
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
        _refuse_reachable(settings)
        self.settings = settings
        self.state = StateDirectory(settings.state_dir, settings.host_name, settings.min_free_bytes)
        markers = Markers(settings.state_dir / "processes")
        # The lock is ours: what a dead worker left running has no owner, and may still write where a call was.
        markers.reap()
        mark_children(markers.holding)
        database = Database(
            settings.database_url,
            process=f"worker {settings.host_name}",
            pool_size=min(settings.concurrency, _POOLED_CONNECTIONS),
        )
        wait_for_service(database.check_writes, StoreUnavailable)
        wait_for_service(lambda seconds: check_broker(settings.broker_url or "", seconds), BrokerUnavailable)
        hands = Hands()
        appserver = AppServerService(
            settings,
            settings.state_dir,
            pass_fds=(self.state.lock_fd,),
            before_send=self._check_lease,
            # The lock goes with the server: no successor works here before somebody has ended it.
            on_stuck=lambda: self._ending.ask(1),
        )
        incarnation = Incarnation(
            settings,
            self.state,
            hands,
            codex_version=appserver.codex_version(),
            account=appserver.account_digest(),
            on_dead=lambda: self._ending.die(),
            on_orphan=self._let_go,
            look_age=lambda: self._slots.look_age(),
        )
        incarnation.register(database)
        mirrors = Mirrors(settings.state_dir, Git(settings.git.timeout_seconds))
        # The state directory is this worker's alone, so what is locked there was locked by the dead.
        mirrors.sweep_stale_locks()
        register_builtin(database)
        wakeups = Wakeups(settings.broker_url)
        self.worker = Worker(
            settings=settings,
            database=database,
            writer=JournalWriter(database, host=settings.host_name, on_ends=wakeups.tell),
            incarnation=incarnation,
            wakeups=wakeups,
            hands=hands,
            mirrors=mirrors,
            appserver=appserver,
            progress=ProgressBoard(database),
        )
        self._slots = Slots(self.worker, Caller(self.worker, run_op, run_agent_call))
        self._queues = Queues(self.worker)
        self._generations = Generations(database, incarnation, appserver)
        self._ending = Ending(self.worker, on_stopped=self._generations.close)

    def run(self) -> NoReturn:
        """Work until a signal ends the process."""
        self.worker.incarnation.start(self.worker.database)
        start_thread(self._slots.idle_loop, "idle")
        start_thread(StopFlags(self.worker).loop, "stop-flags")
        start_thread(Questions(self.worker, {RECOVER: recover_call, PROOFS: answer_proofs}).loop, "questions")
        start_thread(self._queues.watch_loop, "queues")
        start_thread(Janitor(self.worker).loop, "janitor")
        start_thread(self._generations.loop, "generations")
        start_thread(lambda: self.worker.progress.loop(self.worker.stopping), "progress")
        ending = start_thread(self._ending.loop, "ending")
        start_thread(lambda: self._health().loop(self.worker.stopping.wait), "health")
        app = self._celery()
        options = worker_options(self.worker.host, self.settings.concurrency, self._queues.names())
        celery_worker = app.Worker(**options)
        log.info("up", host=self.worker.host, worker=self.worker.incarnation.worker_id)
        celery_worker.start()
        if not self._ending.is_asked:
            # Celery ended by itself: whatever it was, the supervisor starts a fresh process.
            log.error("consumer_ended", status=celery_worker.exitcode)
            self._ending.ask(celery_worker.exitcode or 1)
        ending.join()
        raise AssertionError("the thread that ends this process came back")

    def _health(self) -> Health:
        worker = self.worker

        def database_answers() -> bool:
            try:
                worker.database.check_writes(_CHECK_SECONDS)
            except StoreError:
                return False
            return True

        return Health(
            self.settings.lease_seconds,
            look_age=self._slots.look_age,
            lease_age=worker.incarnation.unconfirmed_seconds,
            database_answers=database_answers,
            end=self._ending.ask,
        )

    def _celery(self) -> Celery:
        app = make_app(self.settings.broker_url or "")
        slots, ending = self._slots, self._ending

        @app.task(name=TASK)  # type: ignore[untyped-decorator]
        def call(call_id: str, request_id: str) -> None:
            slots.take_message(call_id, request_id)

        @app.task(name=CLEAN_TASK)  # type: ignore[untyped-decorator]
        def clean(run_id: str, address: str, resumes: int | None = None) -> None:
            clean_and_answer(self.worker, run_id, address, resumes)

        self._queues.attach(app)
        take_hints(app)
        # Weak references would be gone with this method.
        signals.worker_shutting_down.connect(lambda **_: ending.ask(), weak=False)
        signals.setup_logging.connect(_quiet_celery, weak=False)
        return app

    def _check_lease(self, method: str, _params: Mapping[str, Any]) -> None:
        # Asked right before each frame: a worker that slept past its lease must not wake up sending.
        if not self.worker.incarnation.may_send():
            raise NotSent(f"{method} was not sent: this worker's lease has run out unconfirmed")

    def _let_go(self, call_id: str, fence: int, grant_id: str) -> None:
        # A claim whose COMMIT was answered to nobody, or one that was let go while the database was away.
        # Not in the heartbeat's own thread: a release that has to wait must not delay a beat.
        def release() -> None:
            database = self.worker.database
            released = claims.release_grant(database, call_id, fence, grant_id)
            # What had sent something was given up over a row that could not be stored: it is looked up, by whoever
            # is granted it next.
            stranded = not released and claims.strand_grant(database, call_id, fence, grant_id)
            log.warning("orphan_released" if released or stranded else "orphan_gone", call=call_id, sent=stranded)

        start_thread(release, f"release-{call_id}")


def _refuse_reachable(settings: Settings) -> None:
    """An agent that could write to the state directory could write into other calls' worktrees and proofs."""
    found = find_open_root(settings.state_dir, settings.codex.config)
    if found is not None:
        raise UsageError(
            f"state_dir {settings.state_dir} lies in reach of {found.root}, which a writing agent's sandbox opens; "
            f"move it away with CRW_STATE_DIR, or take {found.line} out of codex.config"
        )


def _quiet_celery(**_: Any) -> None:
    logging.basicConfig(level=logging.WARNING, format="celery: %(message)s")


def main() -> int:
    """Run a worker with the settings in force; the exit status is 2 for what a person has to mend."""
    collect_seldom()
    try:
        settings = load_settings()
        configure_logging("worker", settings.log_level)
        application = Application(settings)
    except (UsageError, StoreError) as error:
        print(f"crw worker: {error}", file=sys.stderr)
        return 2
    application.run()


if __name__ == "__main__":
    sys.exit(main())
