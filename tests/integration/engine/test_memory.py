"""A resume holds no results that the script has not come to: its memory does not grow with what was answered."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Sequence

import pytest

from scheduler import run
from shared.journal import read
from shared.journal.database import Database
from shared.journal.slim import SHORT_PROMPT_CHARACTERS, load_slim
from shared.model.rows import CallRow, NewCallRow, Row
from tests.integration.engine.hands import Field, completed
from tests.integration.engine.test_takeover import interrupt

POSITIONS = 120
FLOW = f"""
async def main(flow, args):
    async def lane(first):
        lengths = 0
        for n in range({POSITIONS // 2}):
            lengths += len((await flow.crw.noop(value=n)).require()["text"])
        return lengths
    total = await flow.parallel({{"a": lane(0), "b": lane(1)}})
    await flow.crw.noop(value="last")
    if args["length"] < 0:
        await flow.crw.noop(value="behind")
    return total
"""


ASKING = """
async def main(flow, args):
    for n in range(40):
        (await flow.agent(f"{n} " + "y" * args["length"], role="reviewer")).require()
    await flow.crw.noop(value="last")
"""


def record(field: Field, length: int, script: str = FLOW, asked: int = 0) -> str:
    """A run whose every position but the last answered with a text of this length; its scheduler is gone."""
    run_id = field.submit(script, {"length": asked})

    def answer(prepared: CallRow) -> Sequence[NewCallRow] | None:
        return None if is_last(prepared) else completed({"text": "x" * length})

    def waits_for_the_last() -> bool:
        return any(map(is_last, field.calls(run_id, "prepared")))

    interrupt(field, run_id, answer, waits_for_the_last)
    return run_id


def is_last(prepared: CallRow) -> bool:
    return prepared.detail.get("arguments") == {"value": "last"}


@pytest.mark.req("RULE41")
@pytest.mark.parametrize("length", [100, 3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_results_of_any_size_come_back(field: Field, length: int) -> None:
    run_id = record(field, length)
    field.drive()
    assert field.end(run_id)["result"] == {"a": POSITIONS // 2 * length, "b": POSITIONS // 2 * length}


@pytest.mark.slow
@pytest.mark.req("RULE41")
def test_the_memory_of_a_resume_does_not_grow_with_its_results(field: Field) -> None:
    peaks = []
    for length in (3_000, 100_000):
        record(field, length)
        gc.collect()
        tracemalloc.start()
        field.drive()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Twelve megabytes of answers; what is read ahead and at hand is a part of that.
    assert peaks[1] - peaks[0] < 6 << 20, peaks


@pytest.mark.req("RULE41")
def test_a_slim_load_has_the_small_results_and_says_which_others_there_are(field: Field) -> None:
    run_id = record(field, 3_000)
    slim = [row for row in load_slim(field.database, run_id) if getattr(row, "event", "") == "completed"]
    assert len(slim) == POSITIONS and all(row.result is None and row.result_bytes > 3_000 for row in slim)
    found = read.load_results(field.database, run_id, [row.seq for row in slim])
    whole = [row for row in read.load(field.database, run_id) if getattr(row, "event", "") == "completed"]
    assert found == {row.seq: row.result for row in whole}


@pytest.mark.req("RULE41")
def test_a_run_lets_go_of_the_rows_that_its_script_has_passed(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = record(field, 100, asked=-1)
    loaded: list[Row] = []
    held: list[list[str]] = []

    def load(database: Database, run_id: str) -> list[Row]:
        loaded.extend(load_slim(database, run_id))
        return list(loaded)

    def answer(prepared: CallRow) -> Sequence[NewCallRow]:
        if prepared.detail["arguments"]["value"] == "behind":
            # By the list above, the loop, and the call that counts.
            held.append([row.event for row in loaded if isinstance(row, CallRow) and sys.getrefcount(row) > 3])
        return completed({"text": "x"})

    monkeypatch.setattr(run, "load_slim", load)
    field.drive(answer)
    assert field.end(run_id)["status"] == "completed"
    assert len(loaded) > 2 * POSITIONS
    assert held == [[]]


@pytest.mark.slow
@pytest.mark.req("RULE41")
def test_the_memory_of_a_resume_does_not_grow_with_its_prompts(field: Field) -> None:
    peaks = []
    for asked in (3_000, 300_000):
        run_id = record(field, 10, ASKING, asked)
        gc.collect()
        tracemalloc.start()
        field.drive()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert field.end(run_id)["status"] == "completed"
    # Twelve megabytes of prompts; a few at a time are read.
    assert peaks[1] - peaks[0] < 7 << 20, peaks


@pytest.mark.req("RULE41")
@pytest.mark.parametrize("asked", [10, 3_000, 30_000])
def test_a_slim_load_has_the_short_prompts_and_all_else_of_what_was_asked(field: Field, asked: int) -> None:
    run_id = record(field, 10, ASKING, asked)
    slim, whole = load_slim(field.database, run_id), read.load(field.database, run_id)
    left_out = {"prompt"} if asked > SHORT_PROMPT_CHARACTERS else set()
    for found, row in zip(slim, whole, strict=True):
        if isinstance(row, CallRow) and isinstance(found, CallRow) and row.kind == "agent" and row.event == "prepared":
            assert found.detail == {name: row.detail[name] for name in row.detail.keys() - left_out}
            assert found.seq == row.seq
        else:
            assert found == row
