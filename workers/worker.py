"""What every call and op of this worker process shares."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import lru_cache

from shared.base.settings import Settings
from shared.broker.wakeups import Wakeups
from shared.journal import claims, runs
from shared.journal.append import Claim, JournalWriter
from shared.journal.database import Database
from shared.model.spec import RunSpec
from workers.appserver.service import AppServerService
from workers.claim import Hand, Hands
from workers.counter import Counter
from workers.incarnation import Incarnation
from workers.progress import ProgressBoard
from workers.worktrees.mirror import Mirrors

_SPECS_KEPT = 256


@dataclass
class Worker:
    """One worker process.

    Shape:
        hands: the calls in work; `hand(claim)` finds one's own, with its `should_stop`.
        counter: where calls are asked for, many at once when many slots ask at the same moment.
        slots: as many as `concurrency`; a call runs while it holds one.
        stopping: set when the process is asked to end: nothing new is claimed.
        mirrors, appserver: this host's git mirrors and its one App Server, which starts when it is first needed.
        progress: where turns say what they are doing, for those who watch.
    """

    settings: Settings
    database: Database
    writer: JournalWriter
    incarnation: Incarnation
    wakeups: Wakeups
    hands: Hands
    mirrors: Mirrors
    appserver: AppServerService
    progress: ProgressBoard
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.slots = threading.BoundedSemaphore(self.settings.concurrency)
        self.counter = Counter(lambda asks: claims.claim_many(self.database, self.incarnation.worker_id, asks))
        # A run's spec never changes, and a thousand calls of one run need it once.
        self.load_spec = lru_cache(maxsize=_SPECS_KEPT)(self._load_spec)

    @property
    def host(self) -> str:
        """This host's name on the farm."""
        return self.incarnation.host

    def hand(self, claim: Claim) -> Hand:
        """The hand that holds a claim."""
        return self.hands.of(claim)

    def should_stop(self, claim: Claim) -> str | None:
        """Why the call should end early (`lost`, `cancel`, `pause`, `deadline`, `worker_stopped`), or None."""
        return self.hand(claim).should_stop()

    def may_send(self, claim: Claim) -> bool:
        """Whether a request with an effect may leave now: the claim is not lost and the own lease is confirmed."""
        return not self.hand(claim).lost.is_set() and self.incarnation.may_send()

    def _load_spec(self, run_id: str) -> RunSpec:
        return runs.load_spec(self.database, run_id)
