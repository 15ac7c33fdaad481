"""The server's process: its lock, its death with the worker, its environment, its restarts."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from shared.base.errors import NotSent, Refused, SettingsError
from tests.fakehost.install import FakeHost
from tests.integration.appserver.conftest import MakeService
from tests.waiting import wait_until
from workers.appserver import ThreadSettings

_ROOT = Path(__file__).resolve().parents[3]


def _lock_is_free(file: Path) -> bool:
    with open(file, "w") as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.req("K64", "RULE4", "RULE5")
def test_the_server_holds_the_inherited_lock_until_it_is_gone(make_service: MakeService, tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with open(file, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        service = make_service(pass_fds=(lock.fileno(),))
        service.connection()
    # The worker's own descriptor is closed; the server's is not.
    assert not _lock_is_free(file)
    service.stop()
    wait_until(lambda: _lock_is_free(file), 5, "the lock to be free")


@pytest.mark.req("T39", "RULE4")
def test_the_server_dies_with_a_worker_that_is_killed(fake: FakeHost, tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import pathlib, signal, threading
        from shared.base.settings import CodexSettings, Settings
        from workers.appserver import AppServerService
        settings = Settings(codex=CodexSettings(bin={str(fake.program)!r}))
        service = AppServerService(settings, pathlib.Path({str(tmp_path)!r}))
        # The thread that asks first ends at once: the server must not end with it.
        starter = threading.Thread(target=service.connection)
        starter.start()
        starter.join()
        print(service.connection()._server.pid, flush=True)
        signal.pause()
    """)
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, cwd=_ROOT, env={**os.environ, "PYTHONPATH": str(_ROOT)}
    ) as worker:
        assert worker.stdout is not None
        lines = iter(worker.stdout.readline, b"")
        pid = next(int(line) for line in lines if line.strip().isdigit())
        server = psutil.Process(pid)
        assert server.is_running() and os.getpgid(pid) == pid
        worker.kill()
    wait_until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, 5, "the server to end")


def test_the_server_sees_no_setting_of_the_farm(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRW_DATABASE_URL", "postgresql://secret")
    connection = make_service().connection()
    environment = psutil.Process(connection._server.pid).environ()
    assert not [name for name in environment if name.startswith("CRW_")]
    assert environment["CODEX_HOME"] == str(tmp_path / "state" / "codex-home")


@pytest.mark.req("K57")
def test_a_broken_configuration_fails_the_start(make_service: MakeService, tmp_path: Path) -> None:
    home = tmp_path / "state" / "codex-home"
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[broken")
    with pytest.raises(SettingsError, match=r"config\.toml"):
        make_service().connection()


def test_a_server_that_dies_again_and_again_is_not_started_for_ever(fake: FakeHost, make_service: MakeService) -> None:
    fake.write_faults({"method": "config/read", "do": "die", "times": 99})
    service = make_service()
    for _ in range(5):
        with pytest.raises(NotSent, match="did not start"):
            service.connection()
    with pytest.raises(NotSent, match="5 times within a minute"):
        service.connection()
    assert len([line for line in fake.requests() if line.get("event") == "start"]) == 5


def test_a_server_that_is_killed_is_started_again_under_a_new_generation(make_service: MakeService) -> None:
    service = make_service()
    first = service.connection()
    os.killpg(first._server.pid, signal.SIGKILL)
    wait_until(lambda: not first.alive, 5, "the death to be noticed")
    assert service.connection().generation != first.generation


def test_a_server_with_many_threads_is_renewed_when_nobody_uses_it(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.appserver.service._LOADED_THREADS", 2)
    service = make_service()

    def new_generation() -> str:
        return service.connection().generation

    first = service.connection()
    generation = first.generation
    wanted = ThreadSettings(str(tmp_path), "m", "high", "read-only", "x", "crw:r1/c1/1")
    for _ in range(2):
        first.threads.start(wanted)
    # A call that still has its connection may have a thread without a turn, which no restart survives.
    assert new_generation() == generation
    del first
    assert new_generation() != generation


def test_the_server_may_open_as_many_files_as_the_machine_allows(make_service: MakeService) -> None:
    soft, hard = psutil.Process(make_service().connection()._server.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == hard


@pytest.mark.req("T39")
def test_stop_is_an_orderly_end_and_final(fake: FakeHost, make_service: MakeService) -> None:
    service = make_service()
    connection = service.connection()
    service.stop()
    assert fake.requests()[-1]["event"] == "exit"
    assert not psutil.pid_exists(connection._server.pid)
    with pytest.raises(NotSent):
        service.connection()


@pytest.mark.req("T34")
def test_a_server_that_cannot_be_ended_is_followed_by_no_other(
    fake: FakeHost, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    service = make_service(on_stuck=lambda: told.append("stuck"))
    connection = service.connection()
    with monkeypatch.context() as kernel:
        # As one that hangs in the kernel: it takes no notice of the end of its input, nor of any signal.
        os.kill(connection.pid, signal.SIGSTOP)
        kernel.setattr("workers.appserver.process._STOP_GRACE_SECONDS", 0.2)
        kernel.setattr("shared.base.command._signal_group", lambda *_: None)
        kernel.setattr("psutil.Process.kill", lambda _: None)
        assert not service.end_generation(connection, shared=True)
        for _ in range(2):
            with pytest.raises(NotSent, match=rf"pid {connection.pid}\) cannot be ended"):
                service.connection()
    assert told == ["stuck"]
    assert len([line for line in fake.requests() if line.get("event") == "start"]) == 1


@pytest.mark.req("C25")
def test_what_a_server_said_last_goes_with_the_failure_and_is_cut(make_service: MakeService, fake: FakeHost) -> None:
    said = "echo " + "x" * 5000 + " out of memory >&2"
    fake.program.write_text(fake.program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{said}\n"))
    fake.write_faults({"method": "config/read", "do": "die"})
    with pytest.raises(NotSent, match=r"did not start.*out of memory") as caught:
        make_service().connection()
    assert 1500 < len(str(caught.value)) < 3000


def test_what_the_server_says_on_its_error_stream_is_kept(
    make_service: MakeService, tmp_path: Path, fake: FakeHost
) -> None:
    program = fake.program.read_text().replace("#!/bin/sh\n", "#!/bin/sh\necho its own words >&2\n")
    fake.program.write_text(program)
    make_service().connection()
    assert "its own words" in (tmp_path / "state" / "log" / "app-server.log").read_text()


@pytest.mark.req("K22")
def test_a_pair_is_held_against_the_configured_list(make_service: MakeService) -> None:
    make_service().connection().check_pair("anything", "high")
    listed = make_service(models=["one", "two"]).connection()
    listed.check_pair("two", "high")
    with pytest.raises(Refused, match=r"codex\.models") as caught:
        listed.check_pair("three", "high")
    assert caught.value.reason == "pair_refused"
