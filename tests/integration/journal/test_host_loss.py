"""A host is given up: every fence of it rises, and what comes of each call depends on what it had sent."""

from __future__ import annotations

import pytest

from shared.base.errors import RightLost, UsageError
from shared.journal import claims, hosts, loss, roster
from shared.journal.append import EndedCall, OpenCall, RunRows
from shared.journal.claims import Denied
from shared.model.rows import NewCallRow
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm, make_identity


def states(farm: Farm, *opened: OpenCall) -> list[str]:
    names = [call.call_id for call in opened]
    found = dict(farm.rows("select call_id, state from call_claims where call_id = any(%(calls)s)", calls=names))
    return [found[name] for name in names]


@pytest.mark.req("RULE21", "RULE27", "K38")
def test_unsent_calls_are_open_again_sent_ones_are_lost_and_no_row_of_the_old_holder_gets_in(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    unsent, sent, stranded = (farm.open(lease, node=node) for node in ("a", "b", "c"))
    fresh, turned = farm.claim(worker, unsent), farm.claim(worker, sent)
    farm.writer.append(farm.claim(worker, stranded), NewCallRow("turn_requested", {}))
    hosts.stop_worker(farm.database, worker)
    worker = farm.new_worker("h1")
    fresh = farm.claim(worker, unsent)
    farm.writer.append(turned_again := farm.claim(worker, sent), NewCallRow("turn_requested", {}))
    taken = loss.lose_host(farm.database, "h1")
    assert taken is not None
    assert states(farm, unsent, sent, stranded) == ["open", "lost", "lost"]
    assert taken.freed == (unsent.call_id,)
    assert {call for _, call in taken.lost} == {sent.call_id, stranded.call_id}
    assert {node for _, node in taken.nodes} == {"b", "c"}, "the unused placement went with its call"
    for held in (fresh, turned_again, turned):
        with pytest.raises(RightLost):
            farm.writer.append(held, NewCallRow("completed", {}))
    assert farm.ask(worker, unsent) == Denied("dead")
    other = farm.new_worker("h2")
    assert farm.claim(other, unsent).node_id == "a"
    assert farm.ask(other, sent) == Denied("ended"), "its run alone says what becomes of it"


@pytest.mark.req("RULE21", "RULE27")
def test_giving_a_host_up_waits_for_a_claim_in_flight_and_takes_it(farm: Farm) -> None:
    worker, opened = farm.new_worker("h1"), farm.open(farm.new_run())
    with session(farm) as one:
        assert one.claim(worker, opened.call_id, opened.request_id, "g1")[0] is None
        with waiting(one, lambda: loss.lose_host(farm.database, "h1")) as losing:
            one.commit()
            taken = losing.result(10)
    assert taken is not None and taken.freed == (opened.call_id,)
    assert states(farm, opened) == ["open"]


@pytest.mark.req("RULE12", "RULE27")
def test_calls_pinned_to_a_lost_host_and_calls_of_its_nodes_go_to_any_host(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    first = farm.open(lease, node="n")
    farm.writer.append(farm.claim(worker, first), NewCallRow("turn_requested", {}), NewCallRow("completed", {}))
    loss.lose_host(farm.database, "h1")
    later = farm.open(lease, node="n", pin_host="h1")
    other = farm.new_worker("h2")
    assert farm.ask(other, later) == Denied("other_host")
    (rest,) = loss.lose_rest(farm.database)
    assert rest.unpinned == (later.call_id,) and loss.lose_rest(farm.database) == []
    assert farm.claim(other, later).node_id == "n"


@pytest.mark.req("RULE27")
def test_the_run_s_own_row_ends_a_lost_call_and_its_next_attempt_opens(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    opened = farm.open(lease)
    farm.writer.append(farm.claim(worker, opened), NewCallRow("command_started", {}))
    loss.lose_host(farm.database, "h1")
    row = NewCallRow("superseded", {"reason": "host_lost"})
    ended = EndedCall(
        opened.call_id, opened.path, opened.position, opened.kind, None, opened.request_id, opened.attempt, row
    )
    farm.writer.submit(RunRows(lease, ended=(ended,))).result()
    again = OpenCall(
        opened.call_id, opened.path, opened.position, opened.kind, None, "op", "second", 1, NewCallRow("prepared", {})
    )
    farm.writer.submit(RunRows(lease, opens=(again,))).result()
    assert not farm.claim(farm.new_worker("h2"), again).sent


@pytest.mark.req("RULE27", "RULE6")
def test_a_lost_host_that_comes_back_is_new_and_its_name_is_free_for_another_directory(farm: Farm) -> None:
    worker, lease = farm.new_worker("h1"), farm.new_run()
    opened = farm.open(lease)
    farm.writer.append(farm.claim(worker, opened), NewCallRow("turn_requested", {}))
    loss.lose_host(farm.database, "h1")
    back = farm.new_worker("h1", host_id="another")
    (host,) = (one for one in roster.list_hosts(farm.database) if one.host == "h1")
    assert (host.state, host.host_id, host.stranded, host.nodes) == ("up", "another", 0, 0)
    assert claims.claimable(farm.database, back, 5) == []
    with pytest.raises(UsageError, match="another state directory"):
        hosts.register(farm.database, make_identity("h1"))


@pytest.mark.req("RULE27", "RULE11")
def test_a_host_is_missed_only_while_a_run_waits_for_it_and_for_as_long_as_was_set(farm: Farm) -> None:
    idle, busy = farm.new_worker("h1"), farm.new_worker("h2")
    opened = farm.open(farm.new_run())
    farm.writer.append(farm.claim(busy, opened), NewCallRow("turn_requested", {}))
    silent = "update farm_workers set lease_until = now() - interval '60 s' where worker_id = %(w)s returning 1"
    for worker in (idle, busy):
        farm.rows(silent, w=worker)
    assert [one.worker_id for one in loss.missed_hosts(farm.database, 59)] == ["h2"]
    assert loss.missed_hosts(farm.database, 61) == []
