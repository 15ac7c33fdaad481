"""Publishers share what is due."""

from __future__ import annotations

import pytest

from shared.journal import outbox
from tests.integration.journal.sessions import session
from tests.journal_farm import Farm


@pytest.mark.req("RULE36")
def test_two_publishers_take_disjoint_rows_and_none_comes_due_again_at_once(farm: Farm) -> None:
    lease = farm.new_run()
    for _ in range(4):
        farm.open(lease)
    assert outbox.take_due(farm.database, 10) == []
    farm.rows("update outbox set not_before = now() returning 1")
    with session(farm) as one:
        taken = {row[0] for row in one.run("select call_id from outbox order by not_before limit 2 for update")}
        others = {publication.call_id for publication in outbox.take_due(farm.database, 10)}
        one.commit()
    assert len(others) == 2 and not taken & others
    assert len(outbox.take_due(farm.database, 10)) == 2 and outbox.take_due(farm.database, 10) == []
    assert farm.rows("select max(tries), bool_and(not_before > now() + interval '50 s') from outbox") == [(2, True)]
