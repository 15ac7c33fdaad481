"""An incarnation's lease: what was confirmed counts, beats need no pool, orphans are named, a death is noticed."""

import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from shared.base.settings import Settings
from shared.journal import hosts
from shared.journal.database import Database
from tests.waiting import wait_until
from workers.claim import Hands
from workers.incarnation import Incarnation
from workers.state_dir import StateDirectory

LEASE_SECONDS = 1.0


class Life:
    """An incarnation on a real journal that beats only when the test says so."""

    def __init__(self, database_url: str, state_dir: Path) -> None:
        settings = Settings(
            database_url=database_url, host_name="h1", lease_seconds=LEASE_SECONDS, min_free_bytes=0,
            state_dir=state_dir,
        )  # fmt: skip
        self.database = Database(database_url, process="test", pool_size=1)
        self.state = StateDirectory(state_dir, "h1", 0)
        self.died: list[bool] = []
        self.orphans: list[str] = []
        self.incarnation = Incarnation(
            settings, self.state, Hands(), on_dead=lambda: self.died.append(True),
            on_orphan=lambda call, _fence, _grant: self.orphans.append(call),
        )  # fmt: skip
        self.incarnation.register(self.database)

    def close(self) -> None:
        self.state.close()
        self.database.close()


@pytest.fixture
def life(fresh_database: str, tmp_path: Path):
    with closing(Life(fresh_database, tmp_path)) as made:
        yield made


@pytest.mark.req("RULE4")
def test_nothing_may_be_sent_past_the_lease_that_was_confirmed(life: Life):
    assert life.incarnation.may_send()
    assert wait_until(lambda: not life.incarnation.may_send(), 5, "the confirmed lease to run out")
    life.incarnation.beat(life.database)
    assert life.incarnation.may_send()


@pytest.mark.req("RULE46")
def test_a_beat_needs_none_of_the_pool_s_connections(life: Life):
    with ExitStack() as busy:
        for _ in range(2):
            busy.enter_context(life.database.transaction())
        started = time.monotonic()
        assert life.incarnation.beat(life.database)
        assert time.monotonic() - started < 3


@pytest.mark.req("RULE4", "RULE21")
def test_a_beat_after_the_burial_says_that_it_is_over(life: Life):
    suspects = wait_until(lambda: hosts.suspects(life.database), 5, "the lease to run out")
    hosts.bury(life.database, suspects[0].worker_id, suspects[0].beat)
    assert not life.incarnation.beat(life.database)


def test_the_thread_tells_of_its_death_once(life: Life):
    life.incarnation.start(life.database)
    hosts.stop_worker(life.database, life.incarnation.worker_id)
    wait_until(lambda: life.died, 5, "the heartbeat to notice")
    assert life.died == [True]
