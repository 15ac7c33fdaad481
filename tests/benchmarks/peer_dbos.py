"""DBOS as the peer, run in an environment of its own: `python peer_dbos.py URL`.

Imports nothing of this project. Reads lines `fanout N`, `replay N` and `replay_again N`,
answers each with one number: what it did a second.

The form is DBOS' own: one process enqueues, runs and waits, with a queue of worker
concurrency 64 polled every 10 ms. Split into a client process and one worker process,
which is how the farm and bare Celery are measured, DBOS 3.4.0 came to 600 workflows a
second on two cores, where this form came to 310; a second worker process made it 520.
So `fanout_vs_dbos` compares with the slower of its forms.
"""

from __future__ import annotations

import sys
import time

from dbos import DBOS, DBOSConfig

QUEUE = "bench"
replays: list[float] = []
recorded: dict[int, str] = {}


@DBOS.workflow()
def noop(value: int) -> int:
    """What one position of ours is to us: enqueued, run by a worker, its end recorded."""
    return value


@DBOS.step()
def step(value: int) -> int:
    """A step whose result is recorded."""
    return value


@DBOS.workflow()
def steps(count: int) -> int:
    """As many recorded steps one after the other; times itself, so that no queue's pause counts."""
    started = time.perf_counter()
    for number in range(count):
        step(number)
    replays.append(time.perf_counter() - started)
    return count


def fanout(count: int) -> float:
    """Workflows a second: enqueue `count`, wait for all."""
    started = time.perf_counter()
    for handle in [DBOS.enqueue_workflow(QUEUE, noop, number) for number in range(count)]:
        handle.get_result()
    return count / (time.perf_counter() - started)


def replay(count: int) -> float:
    """Recorded steps replayed a second: a fork from behind the last step runs the workflow on its record."""
    recorded.pop(count, None)
    return replay_again(count)


def replay_again(count: int) -> float:
    """The same on the record that is there, for so many steps that recording them anew would take minutes."""
    if count not in recorded:
        original = DBOS.start_workflow(steps, count)
        original.get_result()
        recorded[count] = original.get_workflow_id()
    replays.clear()
    behind = len(DBOS.list_workflow_steps(recorded[count])) + 1
    DBOS.fork_workflow(recorded[count], behind).get_result()
    return count / replays[-1]


def main() -> None:
    """Measure what the lines ask for."""
    config: DBOSConfig = {"name": "bench", "system_database_url": sys.argv[1], "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=64, polling_interval_sec=0.01)
    for line in sys.stdin:
        measure, count = line.split()
        measures = {"fanout": fanout, "replay": replay, "replay_again": replay_again}
        print(measures[measure](int(count)), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main()
