"""What every measurement has: services of its own, repetitions, and figures that are ratios.

Every figure compares two things measured in one run on one machine, taken in turns,
so that a slow moment of the machine meets both.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from deploy.embedded import Postgres, Valkey
from shared.base.command import die_with_parent
from tests.databases import Databases, run_sql
from tests.farm import ROOT, Farm

REPETITIONS = 5
_numbers = itertools.count()


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Shape: `value` is the ratio; `ours` and `theirs` the medians it is made of, in
    `unit`; `samples` every repetition; `limits` what holds it back where it falls short.
    """

    key: str
    value: float
    bar: float
    at_least: bool
    ours: float
    theirs: float
    unit: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    limits: str = ""

    @property
    def reached(self) -> bool:
        """Whether the bar is reached."""
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def ratio(
    key: str, ours: list[float], theirs: list[float], *, bar: float, at_least: bool, unit: str, limits: str = ""
) -> Figure:
    """The figure of two series: the ratio of their medians."""
    left, right = median(ours), median(theirs)
    return Figure(key, left / right, bar, at_least, left, right, unit, {"ours": ours, "theirs": theirs}, limits)


class Peer:
    """A process that measures when asked: a line in, a number out."""

    def __init__(self, argv: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self._log = log
        with open(log, "ab") as sink:
            self.child = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True, env=env, cwd=ROOT,
                preexec_fn=die_with_parent,
            )  # fmt: skip

    def ask(self, *words: object) -> float:
        """One measurement."""
        assert self.child.stdin is not None and self.child.stdout is not None
        print(*words, file=self.child.stdin, flush=True)
        answer = self.child.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended; its log is {self._log}")
        return float(answer)

    def close(self) -> None:
        """End it."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()


class Bench:
    """The services of one benchmark run. Everything it makes ends with it."""

    def __init__(self, directory: Path, peer_python: str) -> None:
        self.directory = directory
        self.peer_python = peer_python
        self.postgres = Postgres(directory / "postgres")
        self.postgres.start()
        self._databases = Databases(self.postgres)
        self.valkey = Valkey(directory / "valkey-peer")
        self.valkey.start()

    def fresh_database(self) -> str:
        """URL of a new database with the journal's schema."""
        return self._databases.make(f"bench{next(_numbers)}")

    def farm(self, **settings: Any) -> Farm:
        """A farm with production's times on a database of its own; the caller closes it."""
        directory = self.directory / f"farm{next(_numbers)}"
        directory.mkdir()
        calm = {
            "lease_seconds": 30, "sweep_seconds": 5, "poll_seconds": 2, "idle_claim_seconds": 5, "log_level": "info",
            **settings,
        }  # fmt: skip
        return Farm(directory, self.postgres, self.fresh_database(), **calm)

    def celery_peer(self) -> Peer:
        """Bare Celery with this project's worker options."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "BENCH_BROKER_URL": self.valkey.url}
        return Peer([sys.executable, "-m", "tests.benchmarks.peer_celery"], self.directory / "peer_celery.log", env)

    def dbos_peer(self) -> Peer:
        """DBOS in its own environment, on the same Postgres."""
        name = f"peer{next(_numbers)}"
        run_sql(self.postgres, f"create database {name}")
        url = self.postgres.database_url(name).replace("postgresql+psycopg2://", "postgresql://")
        script = str(ROOT / "tests" / "benchmarks" / "peer_dbos.py")
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return Peer([self.peer_python, script, url], self.directory / "peer_dbos.log", env)

    def close(self) -> None:
        """Stop the services."""
        self.valkey.close()
        self.postgres.close()
