"""Many calls asked for at once, each answered as by itself; an old program is granted nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.base.errors import SchemaMismatch
from shared.journal import claims, run_leases
from shared.journal.append import Claim, RunRows
from shared.journal.claims import Ask, Denied
from shared.model.rows import NewCallRow
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm


@pytest.mark.req("RULE22", "RULE32")
def test_each_of_many_asks_gets_the_answer_it_would_get_alone(farm: Farm) -> None:
    lease = farm.new_run()
    mine, other = farm.new_worker("h1"), farm.new_worker("h2")
    taken, away, node, free = (farm.open(lease, node=name) for name in (None, "n1", "n2", None))
    farm.claim(other, taken)
    farm.claim(other, away)
    sibling = farm.open(lease, node="n1")
    asks = [Ask(opened.call_id, opened.request_id, f"g{number}") for number, opened in enumerate((free, sibling, node))]
    asks += [Ask(taken.call_id, taken.request_id, "g7"), Ask("nobody", "q", "g8"), Ask(free.call_id, "old", "g9")]
    first, second, third, *denied = claims.claim_many(farm.database, mine, asks)
    assert isinstance(first, Claim) and first.call_id == free.call_id
    assert second == Denied("placed_elsewhere")
    assert isinstance(third, Claim) and third.node_id == "n2"
    assert denied == [Denied("held"), Denied("unknown"), Denied("ended")]
    again = claims.claim_many(farm.database, mine, asks[:1])
    assert isinstance(again[0], Claim) and again[0].fence == first.fence
    farm.writer.append(first, NewCallRow("completed"))


@pytest.mark.req("RULE3")
def test_a_call_asked_for_twice_in_one_go_is_granted_once(farm: Farm) -> None:
    worker, opened = farm.new_worker(), farm.open(farm.new_run())
    asks = [Ask(opened.call_id, opened.request_id, grant) for grant in ("g1", "g2")]
    answers = claims.claim_many(farm.database, worker, asks)
    assert sorted(isinstance(answer, Claim) for answer in answers) == [False, True]
    assert Denied("held") in answers


@pytest.mark.req("RULE3", "RULE32", "RULE37")
def test_hosts_that_ask_for_the_same_nodes_in_any_order_never_block_each_other_for_good(farm: Farm) -> None:
    lease, workers = farm.new_run(), [farm.new_worker(f"h{number}") for number in range(4)]
    opened = [farm.opening(lease, node=f"n{number % 7}") for number in range(60)]
    farm.writer.submit(RunRows(lease, opens=tuple(opened))).result()
    together = threading.Barrier(len(workers))

    def take(number: int) -> list[Claim]:
        asks = [Ask(call.call_id, call.request_id, f"g{number}-{call.call_id}") for call in opened]
        asks = asks[number * 13 :] + asks[: number * 13]
        together.wait(10)
        return [got for got in claims.claim_many(farm.database, workers[number], asks) if isinstance(got, Claim)]

    with ThreadPoolExecutor(len(workers)) as pool:
        held = [claim for claims_of_one in pool.map(take, range(len(workers))) for claim in claims_of_one]
    assert len({claim.call_id for claim in held}) == len(held) == len(opened)
    placed = farm.rows("select node_id, count(distinct w.host) from call_claims c join farm_workers w using (worker_id)"
                       " group by node_id")  # fmt: skip
    assert all(hosts == 1 for _, hosts in placed)


@pytest.mark.req("RULE21")
def test_a_batch_waits_for_a_call_that_another_asks_for_and_then_hears_who_has_it(farm: Farm) -> None:
    first, second = farm.new_worker("h1"), farm.new_worker("h2")
    lease = farm.new_run()
    opened = [farm.open(lease) for _ in range(3)]
    asks = [Ask(call.call_id, call.request_id, f"g-{call.call_id}") for call in opened]
    with session(farm) as one:
        assert one.claim(first, opened[1].call_id, opened[1].request_id, "g1")[0] is None
        with waiting(one, lambda: claims.claim_many(farm.database, second, asks)) as asked:
            one.commit()
            answers = asked.result(10)
    assert answers[1] == Denied("held") and isinstance(answers[0], Claim) and isinstance(answers[2], Claim)


@pytest.mark.req("RULE42")
def test_a_program_older_than_min_writer_is_granted_no_call_takes_no_run_and_does_not_start(farm: Farm) -> None:
    worker, opened = farm.new_worker(), farm.open(farm.new_run())
    farm.rows("update farm_meta set min_writer = 2 returning 1")
    assert farm.ask(worker, opened) == Denied("version")
    with pytest.raises(SchemaMismatch, match="writer 2 and newer"):
        run_leases.take(farm.database, farm.scheduler, 1)
    with pytest.raises(SchemaMismatch, match="install the newer program"):
        farm.database.check()
    farm.rows("update farm_meta set min_writer = 1 returning 1")
    assert isinstance(farm.ask(worker, opened), Claim)
