"""Which worker may have a call, and which may register at all."""

from __future__ import annotations

import pytest

from shared.base.errors import UsageError
from shared.journal import claims, hosts
from shared.journal.append import Claim
from shared.journal.claims import Denied
from tests.journal_farm import Farm


@pytest.mark.req("RULE12", "RULE43", "RULE6")
def test_labels_pins_floors_and_draining_decide_who_may_have_a_call(farm: Farm) -> None:
    plain, labelled = farm.new_worker("h1"), farm.new_worker("h2", labels=("gpu",))
    wants = farm.open(farm.new_run(label="gpu"))
    assert farm.ask(plain, wants) == Denied("labels") and isinstance(farm.ask(labelled, wants), Claim)
    lease = farm.new_run()
    pinned = farm.open(lease, pin_host="h1")
    assert farm.ask(labelled, pinned) == Denied("other_host")
    connection = farm.database.connect_raw()
    hosts.beat(connection, plain, 1 << 40, "draining")
    assert farm.ask(plain, farm.open(lease, node="new")) == Denied("draining")
    assert farm.ask(plain, farm.open(lease)) == Denied("draining")
    # A conversation of no node leaves a draining host only while another one could take it.
    assert farm.ask(plain, pinned) == Denied("draining")
    hosts.beat(connection, labelled, 1 << 40, "draining")
    assert isinstance(farm.ask(plain, pinned), Claim)
    small = farm.new_worker("h3", min_free_bytes=100)
    hosts.beat(connection, small, 99)
    assert farm.ask(small, farm.open(lease)) == Denied("disk")
    assert claims.claimable(farm.database, small, 5) == []
    connection.close()


@pytest.mark.req("RULE42")
def test_a_worker_is_not_granted_a_run_of_a_newer_format(farm: Farm) -> None:
    old = farm.new_worker(version=0)
    assert farm.ask(old, farm.open(farm.new_run())) == Denied("version")


@pytest.mark.req("RULE5", "RULE6", "RULE43")
def test_names_directories_and_logins_that_collide_are_refused_with_a_sentence(farm: Farm) -> None:
    farm.new_worker("h1", account="a")
    with pytest.raises(UsageError, match=r"another state directory.*if that one is gone.*'crw host lost h1'"):
        farm.new_worker("h1", host_id="cloned")
    with pytest.raises(UsageError, match=r"login .* host h1"):
        farm.new_worker("h2", account="a")
    with pytest.raises(UsageError, match="machine m"):
        farm.new_worker("h1", account="a", machine="other")
    assert farm.rows("select count(*) from farm_workers") == [(1,)]
