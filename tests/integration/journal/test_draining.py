"""A draining host takes no new node, finishes what it has, and lets idle nodes go once nothing is at work on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.sweeps.moving import MoveNodes
from shared.base.errors import UsageError
from shared.journal import claims, draining, hosts, loss, roster
from shared.journal.append import OpenCall, RunLease, RunRows
from shared.journal.claims import Denied
from shared.model.rows import NewCallRow
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm


def done(farm: Farm, worker: str, lease: RunLease, node: str | None, end: str = "completed") -> OpenCall:
    """An agent call of a node that was worked on by this worker and has ended."""
    opened = farm.open(lease, node=node, kind="agent")
    held = farm.claim(worker, opened)
    farm.writer.append(held, NewCallRow("turn_requested", {}), NewCallRow(end, {"reason": "x"}))
    return opened


def placed_on(farm: Farm, node: str) -> str | None:
    ((host,),) = farm.rows("select host from node_placements where node_id = %(node)s", node=node)
    return host if host is None else str(host)


@pytest.mark.req("RULE43")
def test_it_takes_no_new_node_from_the_commit_on_and_goes_on_with_those_it_has(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    done(farm, worker, lease, "mine")
    assert draining.set_draining(farm.database, "h1", True) is True
    assert farm.ask(worker, farm.open(lease, node="new")) == Denied("draining")
    assert farm.ask(worker, farm.open(lease)) == Denied("draining")
    farm.claim(worker, farm.open(lease, node="mine"))
    assert draining.set_draining(farm.database, "h1", True) is False, "it was so already"
    draining.set_draining(farm.database, "h1", False)
    farm.claim(worker, farm.open(lease, node="new"))


@pytest.mark.req("RULE12", "K42")
def test_an_idle_node_moves_and_its_conversation_goes_to_another_host(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    done(farm, worker, lease, "n")
    draining.set_draining(farm.database, "h1", True)
    assert draining.idle_nodes(farm.database) == [], "there is no host to move it to"
    other = farm.new_worker("h2")
    (node,) = draining.idle_nodes(farm.database)
    assert draining.move_node(farm.database, node) and not draining.move_node(farm.database, node)
    later = farm.open(lease, node="n", kind="agent", pin_host="h1")
    assert farm.ask(worker, later) == Denied("draining"), "the node is not here any more"
    assert draining.unpin_drained(farm.database) == [lease.run_id]
    farm.claim(other, later)
    assert placed_on(farm, "n") == "h2"
    (left, _) = roster.list_hosts(farm.database)
    assert (left.host, left.state, left.nodes) == ("h1", "draining", 0)


@pytest.mark.req("RULE12")
@pytest.mark.parametrize("end", ["held", "outcome_unknown"])
def test_a_node_whose_call_is_held_or_unknown_stays_where_its_conversation_is(farm: Farm, end: str) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    farm.new_worker("h2")
    done(farm, worker, lease, "n", end)
    draining.set_draining(farm.database, "h1", True)
    assert draining.idle_nodes(farm.database) == []


@pytest.mark.req("RULE12")
def test_a_node_that_a_call_comes_to_while_it_moves_stays(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    farm.new_worker("h2")
    done(farm, worker, lease, "n")
    draining.set_draining(farm.database, "h1", True)
    (node,) = draining.idle_nodes(farm.database)
    opened = farm.open(lease, node="n", kind="agent", pin_host="h1")
    with session(farm) as one:
        assert one.claim(worker, opened.call_id, opened.request_id, "g")[0] is None
        with waiting(one, lambda: draining.move_node(farm.database, node)) as moving:
            one.commit()
            assert moving.result(10) is False
    assert placed_on(farm, "n") == "h1"


@pytest.mark.req("RULE12")
def test_a_node_is_moved_only_when_nothing_happened_on_it_between_two_looks(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    farm.new_worker("h2")
    done(farm, worker, lease, "n")
    draining.set_draining(farm.database, "h1", True)
    told: list[str] = []
    sweep = MoveNodes(farm.database, 0.0001, told.append)
    patient = MoveNodes(farm.database, 3600, told.append)
    assert (sweep.pass_once(), patient.pass_once()) == (0, 0), "one look is no idleness"
    done(farm, worker, lease, "n")
    assert sweep.pass_once() == 0, "it was worked on between the looks"
    assert patient.pass_once() == 0
    assert sweep.pass_once() == 1 and placed_on(farm, "n") is None


@pytest.mark.req("RULE12")
def test_a_conversation_of_no_node_goes_to_another_host_with_its_next_call_when_nothing_of_it_is_at_work(
    farm: Farm,
) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    at_work, waits, later = (farm.open(lease, kind="agent", pin_host="h1") for _ in range(3))
    held = farm.claim(worker, at_work)
    draining.set_draining(farm.database, "h1", True)
    assert draining.unpin_drained(farm.database) == [], "there is no host to move it to"
    farm.claim(worker, waits)
    other = farm.new_worker("h2")
    assert farm.ask(worker, later) == Denied("draining")
    assert draining.unpin_drained(farm.database) == [lease.run_id]
    farm.claim(other, later)
    farm.writer.append(held, NewCallRow("completed", {}, result=b"{}"))
    assert draining.unpin_drained(farm.database) == [], "what is at work ends where it is"


@pytest.mark.req("RULE12", "R41")
def test_a_call_of_no_node_that_goes_on_in_place_stays_while_the_draining_worker_lives(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    opened = done(farm, worker, lease, None, "held")
    other = farm.new_worker("h2")
    draining.set_draining(farm.database, "h1", True)
    cleared = replace(opened, attempt=1, pin_host="h1", prepared=NewCallRow("hold_cleared", {"lineage": 1}))
    farm.writer.submit(RunRows(lease, opens=(cleared,))).result()
    assert draining.unpin_drained(farm.database) == []
    claim = farm.claim(worker, cleared)
    assert claims.release(farm.database, claim)
    hosts.stop_worker(farm.database, worker)
    assert draining.unpin_drained(farm.database) == [lease.run_id]
    farm.claim(other, cleared)


def test_a_lost_or_unknown_host_cannot_be_drained(farm: Farm) -> None:
    farm.new_worker("h1")
    loss.lose_host(farm.database, "h1")
    with pytest.raises(UsageError, match="is lost"):
        draining.set_draining(farm.database, "h1", True)
    with pytest.raises(UsageError, match="no host h9"):
        draining.set_draining(farm.database, "h9", True)
