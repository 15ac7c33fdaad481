"""One call at a time writes a node, and what is not cleared holds it."""

import pytest

from scheduler.flow.nodes import Hold, Nodes
from shared.base.errors import FlowError
from shared.model.outcome import Ended, Meta, Status


def ended(status, thread_id=None, reason=None):
    return Ended(status, None, reason, Meta("c", "agent", thread_id=thread_id))


@pytest.mark.req("RULE20")
def test_a_second_writer_is_refused_until_the_first_has_ended():
    nodes = Nodes()
    nodes.begin("a", "flow.agent of role executor")
    nodes.begin("b", "flow.agent of role executor")
    with pytest.raises(FlowError, match=r"flow\.crw\.commit on node a while flow\.agent of role executor is open"):
        nodes.begin("a", "flow.crw.commit")
    nodes.end("a", ended(Status.COMPLETED))
    nodes.begin("a", "flow.crw.commit")


@pytest.mark.parametrize("status", list(Status))
def test_only_held_and_unknown_calls_hold_their_node(status):
    nodes = Nodes()
    nodes.begin("a", "x")
    nodes.end("a", ended(status, reason="quota"))
    holds = status in (Status.HELD, Status.OUTCOME_UNKNOWN)
    hold = nodes.hold_of("a")
    assert (hold is not None) == holds
    if status is Status.HELD:
        assert hold is not None and hold.detail() == {"reason": "node_held (held: quota)"}


@pytest.mark.req("A25", "R16", "R53", "R02")
def test_an_unknown_call_puts_its_node_in_recovery_hold_and_so_do_those_that_meet_it():
    hold = Hold.of(ended(Status.OUTCOME_UNKNOWN, reason="answer_lost"))
    assert hold is not None and hold.detail() == {"reason": "recovery_hold", "unknown_call": "c"}
    met = Ended(Status.HELD, None, hold.reason, Meta("d", "agent"), facts=hold.detail())
    assert Hold.of(met) == hold


@pytest.mark.req("W10")
def test_a_restored_worktree_that_changed_stops_its_node_with_that_reason_and_no_recovery():
    reason = "restore_snapshot_mismatch"
    hold = Hold.of(ended(Status.OUTCOME_UNKNOWN, reason=reason))
    assert hold is not None and hold.detail() == {"reason": reason}
    met = Ended(Status.HELD, None, hold.reason, Meta("d", "agent"), facts=hold.detail())
    assert Hold.of(met) == hold, "each later call of the node says the same"


def test_a_call_that_was_never_opened_leaves_its_node_as_it_was():
    nodes = Nodes()
    nodes.begin("a", "x")
    nodes.end("a", None)
    assert nodes.hold_of("a") is None
    nodes.require_newest("a", "t1")
    nodes.begin("a", "x")
    nodes.end("a", ended(Status.COMPLETED, "t2"))
    nodes.require_newest("a", "t2")
    with pytest.raises(FlowError, match="newer conversation"):
        nodes.require_newest("a", "t1")
