"""Ids have their form, and no two tuples share one."""

import pytest

from shared.base import ids
from shared.base.errors import FlowError


@pytest.mark.req("DEF1", "RULE16")
def test_ids_have_the_form_that_other_parts_rely_on():
    run = ids.new_run_id()
    call = ids.call_id(run, "main", 1)
    assert ids.is_run_id(run) and ids.is_call_id(call)
    assert call == ids.call_id(run, "main", 1)
    assert call != ids.call_id(ids.new_run_id(), "main", 1)


@pytest.mark.req("K07")
def test_the_first_attempt_has_the_request_id_of_the_call_and_later_ones_their_own():
    first = ids.request_id("r", "c")
    assert first == ids.request_id("r", "c", 0)
    assert len({first, ids.request_id("r", "c", 1), ids.request_id("r", "c", 2)}) == 3


@pytest.mark.req("K07")
def test_parts_cannot_be_shifted_into_each_other():
    assert ids.tagged_digest("t", "ab", "c") != ids.tagged_digest("t", "a", "bc")


@pytest.mark.parametrize("node", ["", "-a", "a/b", "a b", "..", "a" * 65, "é", None, 3])
def test_a_node_id_that_could_leave_its_path_is_refused(node):
    with pytest.raises(FlowError):
        ids.parse_node_id(node)
