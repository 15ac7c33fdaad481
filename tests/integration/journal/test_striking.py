"""Each statement of a run's life fails once, in each way a server can fail it: the run's rows are the same ever after.

The statements are counted while an undisturbed life passes, then each of them is struck in
a life of its own.
"""

from __future__ import annotations

import secrets
from typing import Any

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from shared.journal import claims, freeing, hosts, open_calls, outbox, questions, read, run_leases, runs, stopping
from shared.journal.append import Claim, JournalWriter, RunRows
from shared.journal.database import Database, retrying
from shared.journal.submit import submit
from shared.model.rows import CallRow, NewCallRow, NewEventRow
from tests.integration.journal.striking import Blow, Striker
from tests.journal_farm import SCRIPT, Farm, make_identity, make_spec

pytestmark = pytest.mark.timeout(300)


def live(database: Database) -> dict[str, Any]:
    """One run from its submit to its end by every statement the farm has for it; what it came to."""
    host = f"h-{secrets.token_hex(4)}"
    writer = JournalWriter(database, host=host)
    try:
        return _live(Farm(database, writer), writer, host)
    finally:
        writer.close()


def _live(farm: Farm, writer: JournalWriter, host: str) -> dict[str, Any]:
    database = farm.database
    identity = make_identity(host)
    hosts.register(database, identity)
    key = secrets.token_hex(4)
    submitted = submit(database, make_spec(), {"flow.py": SCRIPT}, key)
    (taken,) = run_leases.take(database, farm.scheduler, 1, driven=())
    assert taken.run_id == submitted.run_id
    lease = taken.lease
    writer.submit(RunRows(lease, events=(NewEventRow("started", {}),))).result()
    released, worked, freed, lost = (farm.opening(lease, node=f"n{n}", kind="agent") for n in range(4))
    waiting = farm.opening(lease)
    writer.submit(RunRows(lease, opens=(released, worked, freed, lost, waiting), progress=True)).result()
    outbox.take_due(database, 10)
    held = farm.claim(identity.worker_id, released)
    claims.release(database, held)
    for opened in (released, worked):
        claim = farm.claim(identity.worker_id, opened)
        _work(writer, claim)
    # This one's worker is declared dead with something sent: its next incarnation ends it.
    claim = farm.claim(identity.worker_id, freed)
    writer.append(claim, NewCallRow("placed"))
    writer.append(claim, NewCallRow("turn_requested", {"operation": "t1"}))
    silent = farm.claim(identity.worker_id, lost)
    writer.append(silent, NewCallRow("turn_requested", {"operation": "t1"}))
    successor = make_identity(identity.host, host_id=identity.host_id)
    hosts.register(database, successor)
    hosts.free_dead(database)
    freeing.free_overdue(database, 60.0)
    _work(writer, farm.claim(successor.worker_id, freed))
    asked = questions.ask(database, identity.host, questions.RECOVER, lease.run_id, worked.call_id)
    (question,) = questions.open_questions(database, identity.host)
    questions.answer(database, question.question_id, successor.worker_id, {"proven": False})
    runs.set_stop(database, lease.run_id, "cancel")
    writer.submit(RunRows(lease, withdraw=True)).result()
    hosts.stop_worker(database, successor.worker_id)
    given_up = stopping.give_up(database, lease.run_id)
    run_leases.give_back(database, farm.scheduler)
    farm.scheduler = farm.new_scheduler()
    (again,) = run_leases.take(database, farm.scheduler, 1, driven=())
    (lost_call,) = [call for call in open_calls.open_calls(database, lease.run_id) if call.state == "lost"]
    end = NewCallRow("outcome_unknown", {"reason": "cancel"})
    writer.submit(RunRows(again.lease, ended=(farm.ended(lost, end),))).result()
    writer.submit(RunRows(again.lease, events=(NewEventRow("finished", {"status": "x"}),), finish=True)).result()
    state = runs.run_state(database, lease.run_id)
    assert state is not None
    places = {call.call_id: name for name, call in _named(released, worked, freed, lost, waiting).items()}
    return {
        "rows": [_told(row, places) for row in read.load(database, lease.run_id)],
        "claims": sorted(
            (places[call], *rest)
            for call, *rest in retrying(
                lambda: farm.rows(
                    "select call_id, state, attempt, crashes, rows_written from call_claims where run_id = %(r)s",
                    r=lease.run_id,
                )
            )
        ),
        "answer": questions.load_answer(database, asked),
        "given_up": [places[call] for call in given_up],
        "lost": places[lost_call.call_id],
        "run": (state.state, state.next_seq, state.turns_sent),
        "runs_of_key": len([run for run in runs.list_runs(database, 10_000) if run.run_key == key]),
        "outbox": retrying(lambda: farm.rows("select count(*) from outbox where run_id = %(r)s", r=lease.run_id)),
    }


def _work(writer: JournalWriter, claim: Claim) -> None:
    writer.note(claim, NewCallRow("turn_started"))
    writer.append(claim, NewCallRow("turn_requested", {"operation": "t2"}))
    writer.append(claim, NewCallRow("completed", result=b'{"big": "' + b"x" * 70_000 + b'"}'))


def _named(*calls: Any) -> dict[str, Any]:
    return dict(zip(("released", "worked", "freed", "lost", "waiting"), calls, strict=True))


def _told(row: Any, places: dict[str, str]) -> tuple[Any, ...]:
    if isinstance(row, CallRow):
        return (row.seq, places[row.call_id], row.event, row.attempt)
    return (row.seq, row.kind)


def _admin(url: str) -> dict[str, Any]:
    parsed = make_url(url)
    return {"host": parsed.query["host"], "user": parsed.username, "dbname": "postgres"}


@pytest.mark.slow
@pytest.mark.req("RULE1", "RULE3", "RULE22", "RULE31", "J06")
@pytest.mark.parametrize("blow", list(Blow), ids=lambda blow: blow.name.lower())
def test_whichever_statement_of_a_run_s_life_fails_the_run_comes_to_the_same_rows(
    fresh_database: str, blow: Blow
) -> None:
    admin = _admin(fresh_database)
    with Striker(admin).installed() as watching:
        database = Database(fresh_database, process="test")
        expected = live(database)
        database.close()
    words = " ".join(watching.seen)
    assert len(watching.seen) > 60
    assert all(name in words for name in ("crw_append", "crw_claim", "flow_specs", "commit", "host_questions"))
    wrong = []
    for number in range(1, len(watching.seen) + 1):
        with Striker(admin, number, blow).installed() as striker:
            database = Database(fresh_database, process="test")
            try:
                found = live(database)
                if found != expected:
                    differs = {name: (found[name], value) for name, value in expected.items() if found[name] != value}
                    wrong.append((number, striker.struck, differs))
            except Exception as error:  # noqa: BLE001 - all that is wrong is told at once
                wrong.append((number, striker.struck, f"{type(error).__name__}: {error}"))
            finally:
                database.close()
                _clear(fresh_database)
    assert wrong == [], "\n".join(map(str, wrong))


def _clear(url: str) -> None:
    """No run of a life that failed is left to be taken by the next one."""
    parsed = make_url(url)
    with psycopg2.connect(host=parsed.query["host"], user=parsed.username, dbname=parsed.database) as connection:
        connection.cursor().execute("update flow_runs set state = 'ended' where state <> 'ended'")
    connection.close()
