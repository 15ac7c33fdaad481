"""Arguments and environment of the server."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shared.base.errors import SettingsError
from workers.appserver.launch import (
    find_unasked_servers,
    override_arguments,
    plan_arguments,
    plan_environment,
    toml_value,
)

_PROVIDER = {"name": "p", "base_url": "http://x/v1", "env_key": "MY_KEY", "env_http_headers": {"X-Org": "MY_ORG"}}


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        'quote " back \\ line\n tab\t nul\x00 del\x7f',
        "ünïcode 😀",
        7,
        1.5,
        True,
        [1, "two", [False]],
        {"a": 1, "/srv/re po": {"x.y": "z"}},
        {},
    ],
)
def test_a_value_is_read_back_as_it_was(value: object) -> None:
    assert tomllib.loads(f"v = {toml_value(value)}") == {"v": value}


def test_a_nested_table_becomes_dotted_overrides() -> None:
    assert override_arguments({"a": {"b": {"c": 1}, "d": "x"}, "e": True}) == [
        *("-c", "a.b.c=1"),
        *("-c", 'a.d="x"'),
        *("-c", "e=true"),
    ]


def test_a_table_with_a_key_that_is_no_word_is_passed_whole() -> None:
    assert override_arguments({"projects": {"/srv/x": {"trust_level": "untrusted"}}}) == [
        "-c",
        'projects={"/srv/x"={trust_level="untrusted"}}',
    ]


@pytest.mark.parametrize("config", [{"a": None}, {"a.b": 1}, {"a": [object()]}])
def test_what_cannot_be_passed_on_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"codex\.config"):
        override_arguments(config)


@pytest.mark.req("T05")
def test_a_start_is_local_unless_a_setting_opts_in() -> None:
    local = plan_arguments({}, local_only=True, mcp_servers=["docs"])
    assert {"features.apps=false", 'web_search="disabled"', "mcp_servers.docs.enabled=false"} <= set(local)
    opened = plan_arguments({}, local_only=False, mcp_servers=["docs"])
    assert not {"features.apps=false", "mcp_servers.docs.enabled=false"} & set(opened)
    chosen = plan_arguments({"mcp_servers": {"docs": {"command": "d"}}}, local_only=True, mcp_servers=["docs"])
    assert "mcp_servers.docs.enabled=false" not in chosen
    assert chosen[-1] == 'mcp_servers.docs.command="d"'


@pytest.mark.req("T05")
def test_tables_are_merged_before_they_are_passed_so_that_none_replaces_another() -> None:
    config = {"mcp_servers": {"odd name": {"command": "x"}}, "features": {"goals": True}}
    arguments = plan_arguments(config, local_only=True, mcp_servers=["docs"])
    assert 'mcp_servers={docs={enabled=false},"odd name"={command="x"}}' in arguments
    assert "features.goals=true" in arguments and "features.goals=false" not in arguments


@pytest.mark.req("T05")
def test_an_enabled_server_that_nobody_asked_for_is_found() -> None:
    effective = {"mcp_servers": {"a": {"enabled": True}, "b": {"enabled": False}, "c": {}, "d": {"enabled": True}}}
    assert find_unasked_servers(effective, {"mcp_servers": {"d": {"command": "x"}}}) == ["a", "c"]
    assert find_unasked_servers({}, {}) == []


@pytest.mark.req("K35")
def test_tmp_is_closed_also_for_threads_that_say_nothing() -> None:
    arguments = plan_arguments({}, local_only=True)
    assert "sandbox_workspace_write.exclude_slash_tmp=true" in arguments
    assert "sandbox_workspace_write.exclude_tmpdir_env_var=true" in arguments


def test_the_environment_has_no_secret_of_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("CRW_DATABASE_URL", "CRW_BROKER_URL", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "GIT_DIR", "PYTHONPATH")
    for name in (*secrets, "MY_KEY", "MY_ORG", "LC_ALL"):
        monkeypatch.setenv(name, "value")
    passed = plan_environment(Path("/home/x"), {"model_providers": {"p": _PROVIDER}})
    assert not set(secrets) & set(passed)
    assert passed["CODEX_HOME"] == "/home/x"
    # The keys that a configured provider is told to read are what it was configured for.
    assert {"MY_KEY", "MY_ORG", "LC_ALL", "PATH"} <= set(passed)
