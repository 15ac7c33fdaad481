"""One open position on a path, and a chain of the joins before the next."""

import pytest

from scheduler.flow.path import Path, current_path
from shared.base.errors import FlowError


@pytest.mark.req("DEF1")
def test_positions_count_from_one_and_one_is_open_at_a_time():
    path = Path("main")
    assert path.enter("a") == ("main", 1)
    with pytest.raises(FlowError, match=r"b while a .* flow\.parallel"):
        path.enter("b")
    path.leave()
    assert path.enter("b") == ("main", 2)


@pytest.mark.req("R18")
def test_a_settled_join_enters_the_chain_and_a_call_does_not():
    path = Path("main")
    path.enter("call")
    path.leave()
    before = path.joins
    path.enter("join")
    path.leave("digest")
    assert path.joins != before == ""


def test_flow_outside_a_scripts_coroutine_says_so():
    with pytest.raises(FlowError, match="outside the script"):
        current_path()
