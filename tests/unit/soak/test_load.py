"""The soak's load is as large as asked, and its pace fills the time that was asked for."""

from __future__ import annotations

import pytest

from tests.soak.load import LANES, NOOPS, ROUND, Load
from tests.soak.recovery import sum_up


@pytest.mark.parametrize("positions", [1, 400, 2000, 2001])
def test_a_load_has_at_least_the_calls_that_were_asked_for_and_less_than_one_round_more(positions: int) -> None:
    load = Load.of(positions)
    assert positions <= load.calls < positions + LANES * ROUND
    lanes = load.args(0)["prompts"]
    assert len(lanes) == LANES and all(len(lane) == load.rounds for lane in lanes)
    assert all(3 + NOOPS + len(asks["reviews"]) == ROUND for lane in lanes for asks in lane)


def test_the_pauses_of_a_lane_add_up_to_the_time_and_change_no_prompt() -> None:
    load = Load.of(2000)
    paced = load.args(900)
    assert (paced["pause"] + paced["seconds"]) * NOOPS * load.rounds == pytest.approx(900, rel=0.01)
    assert paced["prompts"] == load.args(0)["prompts"]


def test_the_times_to_recover_are_summed_up_as_median_and_worst() -> None:
    assert sum_up([3.0, 1.0, 2.0]) == {"median": 2.0, "worst": 3.0}
    assert sum_up([]) == {"median": None, "worst": None}
