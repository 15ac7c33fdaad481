"""A host whose disk is full: a small file system of its own, really filled, under the worker's state directory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, say, worker_settings
from tests.fakehost.install import install
from tests.farm import Farm
from tests.repositories import make_bare_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

DISK_BYTES = 64 << 20
FLOOR_BYTES = 16 << 20
SCRIPT = f"""
async def main(flow, args):
    said = []
    for ask in args["asks"]:
        built = await flow.agent(ask, role="executor", node="n", schema={SCHEMA!r}, deadline=args["deadline"])
        said.append([built.status, built.reason, built.output and built["summary"]])
    return said
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB; needs the right to mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> Path:
    """Leave not a byte."""
    file = disk / "filling"
    with open(file, "wb", buffering=0) as sink:
        try:
            while True:
                sink.write(b"x" * (1 << 20))
        except OSError:
            pass
    assert shutil.disk_usage(disk).free < 1 << 20
    return file


@pytest.mark.req("RULE6", "RULE43")
def test_a_host_whose_disk_is_full_claims_nothing_and_goes_on_when_there_is_room(
    farm: Farm, tmp_path: Path, disk: Path
) -> None:
    hub, fake = make_bare_hub(tmp_path / "hub.git"), install(tmp_path)
    worker = farm.start_worker("h1", state_dir=disk / "state", min_free_bytes=FLOOR_BYTES, **worker_settings(fake))
    farm.wait_up(worker, farm.start_scheduler())
    filling = fill(disk)
    low = "select 1 from farm_workers where free_bytes < min_free_bytes"
    wait_until(lambda: farm.database.fetch(low, {}), 20, "the host to say that it has no room")
    asks = [prompt(say("one")), prompt(say("two"))]
    run_id = farm.submit(SCRIPT, {"asks": asks, "deadline": 60}, **agent_spec(hub))
    wait_until(lambda: farm.call_rows(run_id, "prepared"), 20, "an open call")
    passed = wait_until(lambda: farm.database.fetch("select max(beat) from farm_workers", {})[0][0], 5, "a beat")
    beats = "select 1 from farm_workers where beat > %(beat)s + 10"
    wait_until(lambda: farm.database.fetch(beats, {"beat": passed}), 20, "some beats")
    assert [row.event for row in farm.call_rows(run_id)] == ["prepared"]
    filling.unlink()
    end = farm.wait_finished(run_id, 60)
    assert end.data["result"] == [["completed", None, "one"], ["completed", None, "two"]]
    assert worker.alive


@pytest.mark.slow
@pytest.mark.req("RULE6", "RULE9", "A22")
def test_a_disk_that_fills_up_under_a_turn_loses_no_call_and_sends_nothing_twice(
    farm: Farm, tmp_path: Path, disk: Path
) -> None:
    hub, fake = make_bare_hub(tmp_path / "hub.git"), install(tmp_path)
    worker = farm.start_worker("h1", state_dir=disk / "state", min_free_bytes=FLOOR_BYTES, **worker_settings(fake))
    farm.wait_up(worker, farm.start_scheduler())
    slow = prompt({"before": 2, "out": [{"exec": "head -c 200000 /dev/urandom > made.bin"}]}, say("one"))
    # What a server cannot write down it does not tell of either: the call's own deadline ends the wait.
    run_id = farm.submit(SCRIPT, {"asks": [slow, prompt(say("two"))], "deadline": 5}, **agent_spec(hub))
    wait_until(lambda: farm.call_rows(run_id, "user_message_seen"), 30, "a turn")
    filling = fill(disk)
    ended = ("turn_ended", "held", "outcome_unknown")
    wait_until(
        lambda: farm.call_rows(run_id, *ended) or worker.said("claim_lost"), 110, "the turn to be seen ended, or left"
    )
    # A call whose work cannot be written down waits with it: nothing of it is dropped for want of room.
    assert not farm.call_rows(run_id, "completed")
    filling.unlink()
    end = farm.wait_finished(run_id, 90)
    assert end.data["status"] == "completed", end.data
    first, second = end.data["result"]
    assert first[:2] in (["held", "deadline"], ["outcome_unknown", "space_alarm"]), first
    assert second[0] == "held", second
    farm.check_rows(run_id)
    asked = [frame["params"]["clientUserMessageId"] for frame in fake.requests("turn/start")]
    assert len(asked) == len(set(asked)), "no turn was sent twice"
    assert worker.alive
