"""Two sessions ask for, hold, lose and give back the same calls."""

from __future__ import annotations

import pytest

from shared.base.errors import RightLost
from shared.journal import claims, hosts, outbox, runs
from shared.journal.claims import Denied
from shared.model.rows import NewCallRow
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm, make_identity


def expire(farm: Farm, worker: str) -> int:
    """Let a worker's lease run out and return its beat."""
    ((beat,),) = farm.rows(
        "update farm_workers set lease_until = now() - interval '1 s' where worker_id = %(w)s returning beat", w=worker
    )
    return int(beat)


@pytest.mark.req("RULE3", "RULE21", "K05")
def test_of_two_workers_that_ask_at_once_one_is_granted_the_call(farm: Farm) -> None:
    first, second = farm.new_worker("h1"), farm.new_worker("h2")
    opened = farm.open(farm.new_run())
    with session(farm) as one:
        assert one.claim(first, opened.call_id, opened.request_id, "g1")[0] is None
        with waiting(one, lambda: farm.ask(second, opened)) as asked:
            one.commit()
            assert asked.result(10) == Denied("held")


@pytest.mark.req("RULE22")
def test_the_same_grant_asked_again_gets_the_same_fence_and_another_grant_is_dropped(farm: Farm) -> None:
    worker = farm.new_worker()
    opened = farm.open(farm.new_run())
    held = farm.claim(worker, opened, "g1")
    farm.writer.append(held, NewCallRow("placed"))
    again = farm.claim(worker, opened, "g1")
    assert (again.fence, again.rows_written) == (held.fence, 1)
    assert farm.ask(worker, opened, "g2") == Denied("held")
    with farm.database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert hosts.held_by(raw, worker) == [(opened.call_id, held.fence, "g1")]


@pytest.mark.req("RULE21")
def test_a_burial_waits_for_a_claim_in_flight_and_frees_it(farm: Farm) -> None:
    worker = farm.new_worker()
    opened = farm.open(farm.new_run())
    beat = expire(farm, worker)
    with session(farm) as one:
        assert one.claim(worker, opened.call_id, opened.request_id, "g1")[0] is None
        # The worker's row is locked by the claim: this pass skips it, no sweep waits for a frozen worker.
        assert hosts.bury(farm.database, worker, beat) == []
        one.commit()
    (freed,) = hosts.bury(farm.database, worker, beat)
    assert freed.call_id == opened.call_id and not freed.sent and freed.crashes == 1
    assert farm.ask(worker, opened) == Denied("dead")
    assert farm.claim(farm.new_worker("h2"), opened).fence > 1


@pytest.mark.req("RULE21")
def test_a_claim_that_waits_behind_a_burial_is_refused(farm: Farm) -> None:
    worker = farm.new_worker()
    opened = farm.open(farm.new_run())
    with session(farm) as one:
        one.run("update farm_workers set state = 'dead' where worker_id = %s", (worker,))
        with waiting(one, lambda: farm.ask(worker, opened)) as asked:
            one.commit()
            assert asked.result(10) == Denied("dead")


@pytest.mark.req("RULE21")
def test_what_any_dead_worker_still_holds_is_freed_at_the_next_pass(farm: Farm) -> None:
    worker = farm.new_worker()
    held = farm.claim(worker, farm.open(farm.new_run()))
    farm.rows("update farm_workers set state = 'dead' where worker_id = %(w)s returning 1", w=worker)
    assert [freed.call_id for freed in hosts.free_dead(farm.database)] == [held.call_id]
    assert hosts.free_dead(farm.database) == []


@pytest.mark.req("RULE11")
def test_a_late_heartbeat_saves_a_worker_and_one_after_the_burial_gets_no_row(farm: Farm) -> None:
    worker = farm.new_worker()
    beat = expire(farm, worker)
    assert [suspect.worker_id for suspect in hosts.suspects(farm.database)] == [worker]
    connection = farm.database.connect_raw(statement_timeout_seconds=3)
    assert hosts.beat(connection, worker, 1 << 40) is not None
    assert hosts.bury(farm.database, worker, beat) == [] and hosts.suspects(farm.database) == []
    hosts.bury(farm.database, worker, expire(farm, worker))
    assert hosts.beat(connection, worker, 1 << 40) is None
    connection.close()


@pytest.mark.req("RULE3")
def test_a_terminal_row_that_was_first_leaves_nothing_to_free(farm: Farm) -> None:
    worker = farm.new_worker()
    held = farm.claim(worker, farm.open(farm.new_run()))
    beat = expire(farm, worker)
    with session(farm) as one:
        assert one.append_rows(held, "turn_requested", "completed")
        with waiting(one, lambda: hosts.bury(farm.database, worker, beat)) as buried:
            one.commit()
            assert buried.result(10) == []
    assert farm.rows("select state, worker_id from call_claims") == [("ended", None)]


@pytest.mark.req("RULE3")
def test_a_terminal_row_behind_a_burial_is_refused_and_the_call_is_stranded(farm: Farm) -> None:
    worker = farm.new_worker()
    held = farm.claim(worker, farm.open(farm.new_run()))
    farm.writer.append(held, NewCallRow("turn_requested"))
    with session(farm) as one:
        one.run("select 1 from call_claims for no key update")
        with waiting(one, lambda: farm.writer.append(held, NewCallRow("completed"))) as ended:
            one.run(
                "update call_claims set fence = fence + 1, worker_id = null, grant_id = null, state = 'stranded',"
                " rows_written = 0"
            )
            one.commit()
            with pytest.raises(RightLost):
                ended.result(10)
    assert farm.rows("select count(*) from flow_calls where terminal") == [(0,)]


@pytest.mark.req("RULE5", "RULE12")
def test_a_stranded_call_waits_for_its_host_and_its_next_incarnation_learns_that_something_was_sent(
    farm: Farm,
) -> None:
    lease = farm.new_run()
    opened = farm.open(lease)
    held = farm.claim(farm.new_worker("h1"), opened)
    farm.writer.append(held, NewCallRow("turn_requested"))
    identity = make_identity("h1")
    (freed,) = hosts.register(farm.database, identity)
    assert freed.sent and freed.sent_host == "h1"
    with pytest.raises(RightLost):
        farm.writer.append(held, NewCallRow("completed"))
    assert farm.ask(farm.new_worker("h2"), opened) == Denied("other_host")
    (publication,) = outbox.take_due(farm.database, 10)
    assert (publication.queue, publication.tries) == ("host.h1", 1)
    assert claims.claimable(farm.database, identity.worker_id, 5) == [(opened.call_id, opened.request_id)]
    runs.set_stop(farm.database, lease.run_id, "cancel")
    found = farm.claim(identity.worker_id, opened)
    assert found.sent and found.sent_host == "h1" and found.crashes == 1 and found.fence > held.fence
    farm.writer.append(found, NewCallRow("outcome_unknown"))


@pytest.mark.req("RULE32")
def test_of_two_hosts_that_ask_for_the_first_calls_of_a_node_one_places_it_and_the_other_is_rerouted(
    farm: Farm,
) -> None:
    first, second = farm.new_worker("h1"), farm.new_worker("h2")
    lease = farm.new_run()
    one_call, other_call = farm.open(lease, node="n"), farm.open(lease, node="n")
    with session(farm) as one:
        assert one.claim(first, one_call.call_id, one_call.request_id, "g1")[0] is None
        with waiting(one, lambda: farm.ask(second, other_call)) as asked:
            one.commit()
            assert asked.result(10) == Denied("placed_elsewhere")
    (publication,) = outbox.take_due(farm.database, 10)
    assert (publication.call_id, publication.queue) == (other_call.call_id, "host.h1")


@pytest.mark.req("RULE32")
def test_a_placement_on_which_nothing_was_done_goes_with_its_dead_worker(farm: Farm) -> None:
    first, second = farm.new_worker("h1"), farm.new_worker("h2")
    lease = farm.new_run()
    opened, sibling = farm.open(lease, node="n"), farm.open(lease, node="n")
    farm.claim(first, opened)
    hosts.bury(farm.database, first, expire(farm, first))
    due = {publication.call_id: publication.queue for publication in outbox.take_due(farm.database, 10)}
    assert due == {opened.call_id: "farm"}
    held = farm.claim(second, sibling)
    farm.writer.append(held, NewCallRow("turn_requested"))
    farm.writer.append(held, NewCallRow("completed"))
    taken = farm.claim(second, opened)
    hosts.bury(farm.database, second, expire(farm, second))
    assert taken.node_id == "n"
    assert farm.rows("select host, used from node_placements") == [("h2", True)]
