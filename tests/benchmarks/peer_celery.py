"""Bare Celery as the peer: the same broker, the same worker options, tasks that do nothing.

Stock Celery: each message is noted and acknowledged, each event is sent as it comes. The
farm's own worker leaves both out (`workers/consuming.py`), which is why a position, with
its rows in Postgres, can come near a bare task.

`python -m tests.benchmarks.peer_celery` is the publishing side; it starts its worker
as a process of its own. Reads lines `fanout N` (answers tasks a second) and
`roundtrip N` (answers the median in seconds).
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from statistics import median

from celery import Celery

from shared.base.command import die_with_parent
from shared.broker.app import make_app, worker_options
from shared.broker.client import connect

URL = os.environ["BENCH_BROKER_URL"]
QUEUE = "bench"
_done = itertools.count(1)


def bare_app() -> Celery:
    """An application with two tasks that do nothing but say when they are done."""
    app = make_app(URL)
    app.conf.task_default_queue = QUEUE
    client = connect(URL)

    @app.task(name="bench.noop")  # type: ignore[untyped-decorator]
    def noop(_value: int, of: int) -> None:
        # The worker counts; the last of a burst tells.
        if next(_done) % of == 0:
            client.lpush("bench.done", "x")

    @app.task(name="bench.reply")  # type: ignore[untyped-decorator]
    def reply(_value: int) -> None:
        client.lpush("bench.done", "x")

    return app


def fanout(app: Celery, count: int) -> float:
    """Tasks a second for a burst of `count`."""
    client, task = connect(URL, timeout_seconds=120), app.tasks["bench.noop"]
    started = time.perf_counter()
    for number in range(count):
        task.delay(number, count)
    client.blpop(["bench.done"], timeout=100)
    return count / (time.perf_counter() - started)


def roundtrip(app: Celery, count: int) -> float:
    """Median seconds from `delay` to the task's word that it ran, one after the other."""
    client, task = connect(URL, timeout_seconds=120), app.tasks["bench.reply"]
    seconds = []
    for number in range(count):
        started = time.perf_counter()
        task.delay(number)
        client.blpop(["bench.done"], timeout=100)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def main() -> None:
    """The publishing side, or with `worker` the worker."""
    app = bare_app()
    if sys.argv[1:] == ["worker"]:
        app.Worker(**worker_options("bench", 16, [QUEUE])).start()
        return
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.peer_celery", "worker"], stdout=2, preexec_fn=die_with_parent
    )
    try:
        for line in sys.stdin:
            measure, count = line.split()
            print({"fanout": fanout, "roundtrip": roundtrip}[measure](app, int(count)), flush=True)
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
