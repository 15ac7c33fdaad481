"""A wide run beside a narrow one, on real processes."""

from contextlib import closing
from pathlib import Path

import pytest

from deploy.embedded import Postgres
from tests.farm import Farm
from tests.waiting import wait_until

WIDE = """
async def main(flow, args):
    async def one(value):
        return (await flow.crw.noop(value=value, seconds=args["seconds"])).require()["value"]
    return len(await flow.parallel({str(n): one(n) for n in range(args["count"])}))
"""


@pytest.mark.req("RULE36")
@pytest.mark.timeout(90)
def test_a_wide_run_does_not_bury_another_run_s_calls(postgres: Postgres, fresh_database: str, tmp_path: Path):
    with closing(Farm(tmp_path, postgres, fresh_database, calls_at_once=4)) as real:
        real.wait_up(real.start_scheduler(), real.start_worker("h1", concurrency=2))
        wide = real.submit(WIDE, {"count": 120, "seconds": 0.1})
        wait_until(lambda: len(real.call_rows(wide, "completed")) >= 4, 20, "the wide run to be at work")
        narrow = real.submit(WIDE, {"count": 3, "seconds": 0})
        assert real.wait_finished(narrow).data["result"] == 3
        done = len(real.call_rows(wide, "completed"))
        assert done < 100, "the other run did not wait for all of the wide one"
        assert real.wait_finished(wide, 60).data["result"] == 120
        real.check_rows(wide)
        assert real.valkey.client().llen("farm") == 0
