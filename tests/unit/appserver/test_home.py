"""The home, its login's identity, and which codex runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.base.errors import SettingsError
from shared.base.settings import CodexSettings
from workers.appserver.home import account_digest, admit_codex, find_mcp_servers, home_path, prepare_home
from workers.appserver.runtime import find_codex, read_user_agent, version_order


@pytest.mark.req("C01", "K56", "K64")
def test_the_home_is_the_farm_s_own_and_private(tmp_path: Path) -> None:
    home = prepare_home(CodexSettings(), tmp_path)
    assert home == tmp_path / "codex-home"
    assert home.stat().st_mode & 0o777 == 0o700
    assert home_path(CodexSettings(home=tmp_path / "x"), tmp_path) == tmp_path / "x"


def test_a_home_that_cannot_be_made_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"cannot be made.*codex\.home"):
        prepare_home(CodexSettings(home=tmp_path / "file" / "x"), tmp_path)


@pytest.mark.req("K57")
def test_a_broken_config_of_the_home_is_found(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[broken")
    with pytest.raises(SettingsError, match="mend or remove"):
        find_mcp_servers(tmp_path)


def test_mcp_servers_of_the_home_are_found(tmp_path: Path) -> None:
    assert find_mcp_servers(tmp_path) == []
    (tmp_path / "config.toml").write_text('[mcp_servers.docs]\ncommand = "x"\n')
    assert find_mcp_servers(tmp_path) == ["docs"]


def _log_in(home: Path, content: object) -> None:
    home.mkdir(exist_ok=True)
    (home / "auth.json").write_text(json.dumps(content))


@pytest.mark.req("K56", "RULE43")
def test_one_account_has_one_digest_whatever_its_tokens_are(tmp_path: Path) -> None:
    _log_in(tmp_path / "a", {"tokens": {"account_id": "acc", "refresh_token": "one"}})
    _log_in(tmp_path / "b", {"tokens": {"account_id": "acc", "refresh_token": "two"}})
    _log_in(tmp_path / "c", {"tokens": {"account_id": "other", "refresh_token": "one"}})
    first = account_digest(tmp_path / "a")
    assert first == account_digest(tmp_path / "b") != account_digest(tmp_path / "c")
    assert first is not None and "acc" not in first


@pytest.mark.parametrize("content", [{"OPENAI_API_KEY": "sk-x", "tokens": None}, {}, [1], None])
def test_what_cannot_clash_has_no_digest(tmp_path: Path, content: object) -> None:
    assert account_digest(tmp_path) is None
    _log_in(tmp_path, content)
    assert account_digest(tmp_path) is None


@pytest.mark.req("T04")
def test_an_explicit_codex_must_work_itself(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no executable file"):
        find_codex(CodexSettings(bin=str(tmp_path / "none")))
    silent = tmp_path / "codex"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    with pytest.raises(SettingsError, match="does not name a version"):
        find_codex(CodexSettings(bin=str(silent)))
    silent.write_text("#!/bin/sh\necho codex-cli 99.1.0-alpha.2\n")
    assert find_codex(CodexSettings(bin=str(silent))).version == "99.1.0-alpha.2"


@pytest.mark.parametrize(
    ("agent", "version"),
    [("crw-farm/0.163.0 (Linux; x86_64) unknown (crw-farm; 1)", "0.163.0"), ("odd", ""), ("", "")],
)
def test_the_version_is_in_the_user_agent(agent: str, version: str) -> None:
    assert read_user_agent(agent) == version


def _codex(directory: Path, version: str) -> CodexSettings:
    program = directory / f"codex-{version}"
    program.write_text(f"#!/bin/sh\necho codex-cli {version}\n")
    program.chmod(0o755)
    return CodexSettings(bin=str(program), home=directory / "home")


@pytest.mark.req("RULE42")
def test_an_older_codex_does_not_start_on_a_home_that_a_newer_one_served(tmp_path: Path) -> None:
    home = prepare_home(_codex(tmp_path, "0.154.0"), tmp_path)
    admit_codex(_codex(tmp_path, "0.154.0"), home)
    admit_codex(_codex(tmp_path, "0.163.0"), home)
    with pytest.raises(SettingsError, match=r"served by codex 0\.163\.0.*older 0\.162\.1.*codex\.home"):
        admit_codex(_codex(tmp_path, "0.162.1"), home)
    assert admit_codex(_codex(tmp_path, "0.163.0"), home).version == "0.163.0"


@pytest.mark.req("RULE42")
def test_versions_are_ordered_by_their_numbers_and_what_is_early_comes_first() -> None:
    ordered = ["0.99.9", "0.154.0", "0.163.0-alpha.2", "0.163.0-alpha.10", "0.163.0", "0.163.1", "1.0.0"]
    assert sorted(reversed(ordered), key=version_order) == ordered
