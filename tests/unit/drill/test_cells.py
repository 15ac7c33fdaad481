"""The drill's cells are generated from the row kinds, and its report says what no cell reached."""

from __future__ import annotations

from pathlib import Path

from shared.model.events import ROW_KINDS
from tests.drill.__main__ import AT_LEAST, make_report
from tests.drill.cells import Boundary, Fault, boundaries, make_cells, thin_out, written_words
from tests.drill.invariants import Asked, check_invariants
from tests.drill.outcome import Outcome
from tests.drill.scenarios import make_scenarios

SCENARIOS = make_scenarios(Path("/nowhere"), "0" * 40)


def test_every_row_kind_that_is_written_is_struck_at_each_of_its_boundaries_by_each_fault() -> None:
    words = written_words()
    cells = make_cells(words, SCENARIOS)
    assert {"prepared", "turn_requested", "push_requested", "completed", "withdrawn", "finished"} <= words
    assert {(cell.word, cell.boundary, cell.fault) for cell in cells} == {
        (word, boundary, fault) for word in words for boundary in boundaries(word) for fault in Fault
    }
    assert len(cells) >= AT_LEAST
    assert all(Boundary.SENT in boundaries(word) for word in words if ROW_KINDS[word].sends)


def test_a_smaller_drill_is_spread_over_all_cells_and_always_the_same() -> None:
    cells = make_cells(written_words(), SCENARIOS)
    some = thin_out(cells, 30)
    assert len(some) == 30 and some == thin_out(cells, 30)
    assert len({cell.word for cell in some}) > 20


def test_a_point_that_no_cell_reached_is_uncovered_and_fails_the_drill() -> None:
    cells = [cell for cell in make_cells({"placed"}, SCENARIOS) if cell.fault is Fault.KILL]
    outcomes = [Outcome(cell.name, reached=cell.boundary is not Boundary.NEXT) for cell in cells]
    report = make_report(cells, outcomes, whole=False)
    assert report["uncovered"] == [["placed", str(Boundary.NEXT)]]
    assert not report["ok"] and report["passed"] == len(cells) - 1


def test_a_run_without_an_end_and_a_turn_that_ran_twice_are_found() -> None:
    found = check_invariants([], open_calls=[], digest="a", expected="b")
    assert any("did not finish" in sentence for sentence in found.lost) and any("result" in s for s in found.lost)
    assert not check_invariants([], open_calls=[], asked=[Asked("c/t1", "one", "")]).duplicates
