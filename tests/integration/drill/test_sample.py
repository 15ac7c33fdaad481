"""A few cells of the drill, always the same: the whole of it is `make drill`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.embedded import Postgres
from tests.databases import Databases
from tests.drill.cells import Boundary, Cell, Fault
from tests.drill.run import run_cell
from tests.drill.stage import Stage

pytestmark = pytest.mark.timeout(180)

# One cell for each boundary and each fault, at the rows where an error would cost most.
SAMPLE = [
    Cell("turns", "turn_requested", Boundary.AFTER, Fault.KILL),
    Cell("turns", "turn_requested", Boundary.SENT, Fault.SERVER),
    Cell("turns", "turn_ended", Boundary.BEFORE, Fault.KILL),
    Cell("work", "push_requested", Boundary.SENT, Fault.KILL),
    Cell("work", "prepared", Boundary.AFTER, Fault.CUT),
    Cell("lost", "turn_lost", Boundary.AFTER, Fault.KILL),
    Cell("failing", "ending", Boundary.AFTER, Fault.KILL),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, databases: Databases) -> Iterator[Stage]:
    with closing(Stage(Path(tmp_path_factory.mktemp("drill")), postgres, databases)) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> dict[str, str]:
    """The digest of each scenario's result when nothing dies."""
    digests = {}
    for name in dict.fromkeys(cell.scenario for cell in SAMPLE):
        outcome = run_cell(stage, name, None, None)
        assert outcome.passed, outcome.why()
        digests[name] = str(outcome.digest)
    return digests


@pytest.mark.req("J07", "O04", "RULE1", "RULE4", "RULE6", "RULE18")
@pytest.mark.parametrize("cell", SAMPLE, ids=lambda cell: cell.name)
def test_whatever_dies_there_the_run_goes_on_to_the_same_result(
    stage: Stage, undisturbed: dict[str, str], cell: Cell
) -> None:
    outcome = run_cell(stage, cell.scenario, cell, undisturbed[cell.scenario])
    assert outcome.passed, f"{outcome.why()}; logs in {stage.directory}"


ELSEWHERE = [
    Cell("turns", "turn_requested", Boundary.AFTER, Fault.KILL),
    Cell("work", "push_requested", Boundary.NEXT, Fault.KILL),
]


@pytest.mark.req("K38", "K42", "RULE19", "RULE27")
@pytest.mark.parametrize("cell", ELSEWHERE, ids=lambda cell: cell.name)
def test_where_the_host_is_lost_too_another_one_comes_to_the_same_result(
    stage: Stage, undisturbed: dict[str, str], cell: Cell
) -> None:
    outcome = run_cell(stage, cell.scenario, cell, undisturbed[cell.scenario], elsewhere=True)
    assert outcome.passed, f"{outcome.why()}; logs in {stage.directory}"
