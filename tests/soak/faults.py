"""The faults of the soak: one at a time, at random, never two of one kind at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import psutil
import psycopg2

from shared.base.errors import StoreError
from tests.databases import run_sql
from tests.drill.stage import app_servers_of
from tests.farm import LEASE_SECONDS
from tests.soak.recovery import Recoveries, Struck
from tests.soak.troupe import HOSTS, SCHEDULERS, Troupe

_PAUSE_SECONDS = (2.0, 5.0)
_FROZEN_LEASES = 2.5
_BROKER_AWAY_SECONDS = 1.0
# Kind: how often it is chosen, and the least seconds between two of it.
_CHANCES = {
    "worker": (30, 0.0),
    "app_server": (20, 0.0),
    "scheduler": (14, 10.0),
    "worker_frozen": (8, 10.0),
    "scheduler_frozen": (4, 20.0),
    "broker": (8, 15.0),
    "broker_flushed": (6, 0.0),
    "database": (6, 20.0),
    "connections": (8, 5.0),
}


class Faults:
    """Strikes the farm now and then. Shape: `struck` counts them by kind."""

    def __init__(self, troupe: Troupe, recoveries: Recoveries, seed: int) -> None:
        self.struck: Counter[str] = Counter()
        self._troupe = troupe
        self._farm = troupe.farm
        self._recoveries = recoveries
        self._random = random.Random(seed)
        self._last: dict[str, float] = {}
        self._next = time.monotonic()

    def strike_if_due(self) -> None:
        """One fault, when its time has come."""
        if time.monotonic() < self._next:
            return
        kind = self._choose()
        try:
            struck = getattr(self, f"_{kind}")()
        except StoreError:
            struck = None  # the database is still away from the last one
        if struck is not None:
            self.struck[kind] += 1
            self._last[kind] = time.monotonic()
            self._recoveries.open.append(struck)
        self._next = time.monotonic() + self._random.uniform(*_PAUSE_SECONDS)

    def _choose(self) -> str:
        now = time.monotonic()
        free = [kind for kind, (_, pause) in _CHANCES.items() if now - self._last.get(kind, -1e9) > pause]
        return self._random.choices(free, [_CHANCES[kind][0] for kind in free])[0]

    # -- the kinds -----------------------------------------------------------------------------------

    def _worker(self) -> Struck | None:
        return self._at_one(HOSTS, "worker", lambda name: self._troupe.running[name].kill())

    def _worker_frozen(self) -> Struck | None:
        return self._at_one(HOSTS, "worker_frozen", lambda name: self._freeze(name))

    def _scheduler(self) -> Struck | None:
        return self._at_one(SCHEDULERS, "scheduler", lambda name: self._troupe.running[name].kill())

    def _scheduler_frozen(self) -> Struck | None:
        return self._at_one(SCHEDULERS, "scheduler_frozen", lambda name: self._freeze(name))

    def _app_server(self) -> Struck | None:
        def kill(name: str) -> None:
            for server in app_servers_of(self._troupe.running[name].pid):
                with suppress(psutil.NoSuchProcess):
                    server.kill()

        return self._at_one(HOSTS, "app_server", kill)

    def _broker(self) -> Struck:
        struck = self._recoveries.aim("broker")
        self._farm.valkey.kill()
        time.sleep(_BROKER_AWAY_SECONDS)
        self._farm.valkey.start()
        # What it had on disk came back; a broker without a disk would have nothing.
        self._farm.valkey.client().flushall()
        return struck

    def _broker_flushed(self) -> Struck:
        struck = self._recoveries.aim("broker_flushed")
        self._farm.valkey.client().flushall()
        return struck

    def _database(self) -> Struck:
        struck = self._recoveries.aim("database")
        self._farm.postgres.kill()
        self._farm.postgres.start()
        return struck

    def _connections(self) -> Struck:
        struck = self._recoveries.aim("connections")
        with suppress(psycopg2.Error):
            run_sql(
                self._farm.postgres,
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'crw-%'"
                " and application_name <> 'crw-test'",
            )
        return struck

    def _freeze(self, name: str) -> None:
        self._troupe.freeze(name, _FROZEN_LEASES * LEASE_SECONDS)

    def _at_one(self, names: tuple[str, ...], kind: str, strike: Callable[[str], None]) -> Struck | None:
        up = self._troupe.up(names)
        if not up:
            return None
        name = self._random.choice(up)
        if name in HOSTS:
            struck = self._recoveries.aim(kind, host=name)
        else:
            struck = self._recoveries.aim(kind, event="prepared")
        strike(name)
        return struck
