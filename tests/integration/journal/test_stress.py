"""Workers, sweepers that kill at random and a scheduler at once; afterwards the invariants hold."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable

import pytest

from shared.base.errors import RightLost, StoreError
from shared.journal import claims, hosts, runs
from shared.journal.append import Claim, JournalWriter, RunLease, RunRows
from shared.model.rows import NewCallRow
from tests.journal_farm import Farm
from tests.waiting import wait_until

# Each names something that must never be found afterwards.
BROKEN = {
    "a gap in seq": """
        select r.run_id from flow_runs r where r.next_seq - 1 <> (select count(*) from flow_calls c
          where c.run_id = r.run_id) + (select count(*) from flow_events e where e.run_id = r.run_id)""",
    "a row after a terminal row of its attempt": """
        select c.call_id from flow_calls c join flow_calls t on t.call_id = c.call_id and t.attempt = c.attempt
          and t.terminal and c.seq > t.seq""",
    "a fence that goes back": """
        select a.call_id from flow_calls a join flow_calls b on b.call_id = a.call_id and b.seq > a.seq
          and b.fence < a.fence""",
    "a call held by the dead": """
        select c.call_id from call_claims c join farm_workers w on w.worker_id = c.worker_id
          where w.state not in ('up', 'draining')""",
    "an open call that nobody will publish": """
        select c.call_id from call_claims c where c.state in ('open', 'stranded')
          and not exists (select 1 from outbox o where o.call_id = c.call_id)""",
    "an announced call that is not waiting": """
        select o.call_id from outbox o join call_claims c on c.call_id = o.call_id
          where c.state not in ('open', 'stranded')""",
    "a node whose calls sent from two hosts": """
        select run_id, node_id from flow_calls where node_id is not null and event = 'turn_requested'
          group by run_id, node_id having count(distinct host) > 1""",
}


@pytest.mark.req("RULE3", "RULE21", "RULE32", "RULE37")
def test_random_deaths_break_no_invariant(farm: Farm) -> None:
    random.seed(7)
    leases = [farm.new_run() for _ in range(4)]
    living: dict[str, str] = {}
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)
            stop.set()

    def schedule() -> None:
        lease: RunLease = random.choice(leases)
        nodes = [random.choice([None, "a", "b", "c"]) for _ in range(6)]
        farm.writer.submit(RunRows(lease, opens=tuple(farm.opening(lease, node=node) for node in nodes))).result()
        time.sleep(0.02)

    def sweep() -> None:
        time.sleep(random.uniform(0.01, 0.1))
        host = random.choice(list(living) or ["h0"])
        if host in living:
            with farm.database.transaction() as connection:
                connection.exec_driver_sql(
                    "update farm_workers set lease_until = now() - interval '1 s' where worker_id = %(w)s",
                    {"w": living[host]},
                )
        for suspect in hosts.suspects(farm.database):
            hosts.bury(farm.database, suspect.worker_id, suspect.beat)
        hosts.free_dead(farm.database)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (schedule, sweep, sweep)]
    threads += [
        threading.Thread(target=guarded, args=(_worker(farm, f"h{number % 3}", living),)) for number in range(3)
    ]
    for thread in threads:
        thread.start()
    counts = "select count(*) filter (where state = 'ended') > 60 and sum(crashes) > 12 from call_claims"
    try:
        wait_until(lambda: stop.is_set() or farm.rows(counts) == [(True,)], 60, "enough ends and deaths")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    hosts.free_dead(farm.database)
    found = {what: farm.rows(statement) for what, statement in BROKEN.items()}
    assert {what: rows for what, rows in found.items() if rows} == {}
    assert all(run.state == "running" for run in runs.list_runs(farm.database))


def _worker(farm: Farm, host: str, living: dict[str, str]) -> Callable[[], None]:
    def live_once() -> None:
        """One incarnation: registers, works until it hears that it is dead."""
        worker = farm.new_worker(host)
        living[host] = worker
        writer = JournalWriter(farm.database, host=host)
        for _ in range(40):
            for call, request in claims.claimable(farm.database, worker, 2):
                held = claims.claim(farm.database, worker, call, request, secrets.token_hex(4))
                if isinstance(held, Claim):
                    _work(writer, held)
        writer.close()

    return live_once


def _work(writer: JournalWriter, held: Claim) -> None:
    try:
        writer.append(held, NewCallRow("placed"))
        if random.random() < 0.6:
            writer.append(held, NewCallRow("turn_requested"))
            writer.note(held, NewCallRow("turn_started"))
        if random.random() < 0.3:
            return  # it forgets the call, as a process that died would
        writer.append(held, NewCallRow("completed", result=b"{}"))
    except RightLost:
        pass
    except StoreError as error:
        raise AssertionError(f"no other error is expected: {error}") from error
