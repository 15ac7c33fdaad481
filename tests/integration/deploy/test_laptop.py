"""Everything that is started together is watched together and stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg2
import pytest
from sqlalchemy import make_url

from deploy.laptop import Laptop, Stopped, stop_on_signals
from deploy.processes import Child, ChildDied, clean_environment
from deploy.restarts import RESTARTS
from tests.waiting import wait_until

MODULE = "tests.integration.deploy.obedient"
ROOT = Path(__file__).parents[3]


def _environment() -> dict[str, str]:
    return clean_environment(PYTHONPATH=str(ROOT))


def _pids(child: Child) -> list[int]:
    lines = wait_until(lambda: child.log.read_text().splitlines(), 20, "the process to name itself")
    return [int(word) for word in lines[0].split()]


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _assert_gone(*pids: int) -> None:
    # A killed grandchild is the kernel's to end: it takes a moment.
    wait_until(lambda: not any(_alive(pid) for pid in pids), 5, f"{pids} to be gone")


@pytest.fixture(scope="module")
def laptop_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laptop")


def _journal_is_there(url: str) -> bool:
    parts = make_url(url)
    opened = psycopg2.connect(host=parts.query["host"], user=parts.username, dbname=parts.database)
    with closing(opened) as connection:
        cursor = connection.cursor()
        cursor.execute("select count(*) from farm_meta")
        return bool(cursor.fetchone() == (1,))


def test_services_come_with_a_schema_and_everything_ends_with_the_context(laptop_directory: Path) -> None:
    with Laptop(laptop_directory, stop_seconds=5) as laptop:
        child = laptop.start("sleeper", MODULE, _environment(), ("sleep",))
        pids = _pids(child)
        assert _journal_is_there(laptop.database_url)
        servers = [laptop.postgres.child.pid, laptop.valkey.child.pid]  # type: ignore[union-attr]
        sockets = [laptop.postgres.sockets, laptop.valkey.sockets]
        laptop.check()
    _assert_gone(*pids, *servers)
    assert [path for path in sockets if path.exists()] == []


def test_a_second_start_finds_the_data_of_the_first(laptop_directory: Path) -> None:
    with Laptop(laptop_directory, stop_seconds=5) as laptop:
        assert _journal_is_there(laptop.database_url)


def test_a_process_that_ends_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with Laptop(tmp_path, stop_seconds=5) as laptop:
        laptop.start("sleeper", MODULE, _environment(), ("sleep",))
        laptop.start("unlucky", MODULE, _environment(), ("die",))
        with pytest.raises(ChildDied, match="unlucky ended with status 3") as died:
            laptop.wait_until(lambda: False, 30)
        assert "no disk is left on this moon" in str(died.value)


def test_a_dead_server_is_noticed_too(tmp_path: Path) -> None:
    with Laptop(tmp_path, stop_seconds=5) as laptop:
        laptop.valkey.kill()
        with pytest.raises(ChildDied, match="valkey ended"):
            laptop.wait_until(lambda: False, 10)


def test_who_ignores_the_request_to_stop_is_killed_with_all_it_started(tmp_path: Path) -> None:
    child = Child("stubborn", MODULE, ["stubborn"], log=tmp_path / "log", environment=_environment(), cwd=tmp_path)
    child.start()
    pids = _pids(child)
    started = time.monotonic()
    child.stop(1.0)
    assert time.monotonic() - started < 5
    _assert_gone(*pids)


def test_a_child_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from deploy.processes import Child\n"
        f"d = Path(sys.argv[1]); c = Child('c', '{MODULE}', ['sleep'], log=d / 'log', environment=os.environ, cwd=d)\n"
        "c.start(); print(c.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, env=_environment(), text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _alive(child), 10, "the child to end with its parent")
    # What the child had started is the child's own to tie to itself; here it is cleared away.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_further_ones_do_not_disturb_the_stopping(number: signal.Signals) -> None:
    # Under nohup a SIGHUP is ignored on purpose: the test says what happens without.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with stop_on_signals():
            with pytest.raises(Stopped) as stopped:
                signal.raise_signal(number)
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped.value.number == number
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_a_farm_under_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_variables_of_the_user_do_not_reach_a_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRW_DATABASE_URL", "postgresql+psycopg2://production/crw")
    assert clean_environment(CRW_X="1") | {"PATH": ""} == {
        **{name: value for name, value in os.environ.items() if not name.startswith("CRW_")},
        "CRW_X": "1",
        "PATH": "",
    }


def test_what_ends_is_started_again_and_given_up_when_it_ends_again_and_again(tmp_path: Path) -> None:
    said: list[str] = []
    with Laptop(tmp_path, stop_seconds=5) as laptop:
        sleeper = laptop.start("sleeper", MODULE, _environment(), ("sleep",))
        laptop.keep_up(said.append)
        first = sleeper.pid
        os.kill(first, signal.SIGKILL)
        laptop.valkey.kill()
        laptop.postgres.kill()
        assert laptop.wait_until(lambda: sleeper.running and sleeper.pid != first, 30)
        assert laptop.wait_until(lambda: _journal_is_there(laptop.database_url), 30)
        assert {line.split()[0] for line in said} == {"sleeper", "valkey", "postgres"}
        laptop.start("unlucky", MODULE, _environment(), ("die",))
        with pytest.raises(ChildDied, match="unlucky ended with status 3"):
            laptop.wait_until(lambda: False, 60)
    assert sum(line.startswith("unlucky") for line in said) == RESTARTS


def test_a_database_whose_data_is_gone_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    with Laptop(tmp_path, stop_seconds=5) as laptop:
        laptop.keep_up(lambda _line: None)
        laptop.postgres.kill()
        (laptop.postgres.data / "PG_VERSION").unlink()
        with pytest.raises(ChildDied, match=r"postgres ended .* is gone"):
            laptop.wait_until(lambda: False, 30)
