"""What a repository or a home brings along does not run on the host; what it says to agents is heard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.base.errors import SettingsError
from tests.contract.hosts import FAKE, ContractHost, final


def _server(marker: Path) -> str:
    return f'[mcp_servers.docs]\ncommand = "/bin/sh"\nargs = ["-c", "touch {marker}; cat"]\n'


@pytest.mark.req("T05", "K57")
def test_an_mcp_server_of_the_repository_is_not_started(host: ContractHost) -> None:
    work = host.workspace()
    (work / ".git").mkdir()
    (work / ".codex").mkdir()
    (work / ".codex" / "config.toml").write_text(_server(work / "ran"))
    assert host.run(host.thread(cwd=str(work)), final("done")).status == "completed"
    assert not (work / "ran").exists()


@pytest.mark.req("T05")
def test_an_mcp_server_of_the_home_is_switched_off(own_host: ContractHost) -> None:
    home = own_host.directory / "codex-home"
    home.mkdir()
    (home / "config.toml").write_text(_server(own_host.directory / "ran"))
    assert own_host.run(own_host.thread(), final("done")).status == "completed"
    assert not (own_host.directory / "ran").exists()


@pytest.mark.req("K57")
@pytest.mark.parametrize("broken", ["[broken", 'model_auto_compact_token_limit = "x"\n'])
def test_a_broken_configuration_of_the_home_fails_the_start(own_host: ContractHost, broken: str) -> None:
    if own_host.name == FAKE and not broken.startswith("["):
        broken = "[broken"  # the fake reads no types
    home = own_host.directory / "codex-home"
    home.mkdir()
    (home / "config.toml").write_text(broken)
    with pytest.raises(SettingsError, match=r"config\.toml"):
        _ = own_host.connection


@pytest.mark.req("C01")
def test_the_repository_s_instructions_reach_the_model(host: ContractHost) -> None:
    work = host.workspace()
    (work / ".git").mkdir()
    (work / "AGENTS.md").write_text("Always knock twice.")
    host.run(host.thread(cwd=str(work)), final("done"))
    assert "Always knock twice." in _told(host)


def _told(host: ContractHost) -> str:
    """What the host was told last of all for a thread: by the model's witness, or by the fake's own log."""
    if host.fake is not None:
        return json.dumps(host.fake.requests("thread/start")[-1]["params"])
    assert host.model is not None, "a real host has a scripted model"
    return json.dumps(host.model.requests()[-1]["body"])
