"""Starting: the handshake, a thread, its pair, its mark."""

from __future__ import annotations

import pytest

from shared.base.errors import EchoMismatch, Refused, ThreadMissing
from tests.contract.hosts import FAKE, ContractHost, final

_NOWHERE = "01a22d4c-16ab-79f2-8ef1-000000000000"


@pytest.mark.req("T03", "T20")
def test_a_connection_is_initialised_exactly_once(host: ContractHost) -> None:
    params = {"clientInfo": {"name": "again", "title": None, "version": "1"}}
    with pytest.raises(Refused, match="Already initialized"):
        host.connection.request("initialize", params)


@pytest.mark.req("T04")
def test_the_version_is_the_one_the_server_names(host: ContractHost) -> None:
    version = host.connection.version
    assert version.count(".") == 2
    if host.name != FAKE:
        assert version == host.name


@pytest.mark.req("A02", "K21", "T08", "T22")
@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
def test_a_thread_is_echoed_as_it_was_asked_for(host: ContractHost, sandbox: str) -> None:
    wanted = host.wanted(sandbox=sandbox, auto_compact_token_limit=100_000)
    thread = host.connection.threads.start(wanted)
    assert (thread.model, thread.effort, thread.cwd) == (wanted.model, wanted.effort, wanted.cwd)


@pytest.mark.req("K35")
def test_a_writing_sandbox_has_neither_tmp_nor_tmpdir(host: ContractHost) -> None:
    sandbox = host.thread(sandbox="workspace-write").sandbox
    assert sandbox is not None and sandbox["excludeSlashTmp"] and sandbox["excludeTmpdirEnvVar"]


@pytest.mark.req("A04")
def test_the_configured_pair_and_the_mark_are_read_back(host: ContractHost) -> None:
    wanted = host.wanted(effort="low")
    read = host.connection.threads.read(host.connection.threads.start(wanted).id)
    assert (read.model, read.effort, read.source) == (wanted.model, "low", wanted.source)


@pytest.mark.req("K14")
def test_the_mark_outlives_the_first_turn(host: ContractHost) -> None:
    wanted = host.wanted()
    thread = host.connection.threads.start(wanted)
    host.run(thread, final("done"))
    assert host.connection.threads.read(thread.id).source == wanted.source


@pytest.mark.req("K57")
def test_starting_a_thread_writes_no_trust_into_the_home(host: ContractHost) -> None:
    host.thread(sandbox="workspace-write")
    host.thread(sandbox="danger-full-access")
    assert not (host.directory / "codex-home" / "config.toml").exists()


def test_an_unknown_thread_is_missing_to_every_request(host: ContractHost) -> None:
    connection, wanted = host.connection, host.wanted()
    with pytest.raises(ThreadMissing):
        connection.threads.read(_NOWHERE)
    with pytest.raises(ThreadMissing):
        connection.threads.resume(_NOWHERE, wanted)
    with pytest.raises(ThreadMissing):
        connection.threads.fork(_NOWHERE, _NOWHERE, wanted)
    with pytest.raises(ThreadMissing):
        connection.turns.read_full(_NOWHERE, _NOWHERE)
    with connection.turns.cursor(_NOWHERE) as cursor, pytest.raises(ThreadMissing):
        connection.turns.start(cursor, host.request(final("never")))


@pytest.mark.req("A04", "K21", "T08")
def test_a_loaded_thread_ignores_new_settings_and_the_echo_tells(host: ContractHost) -> None:
    thread = host.thread(sandbox="read-only")
    host.run(thread, final("done"))
    other = host.wanted(cwd=thread.cwd, sandbox="read-only", effort="low")
    with pytest.raises(EchoMismatch) as caught:
        host.connection.threads.resume(thread.id, other)
    assert caught.value.reason == "pair_refused"
    assert caught.value.facts["differences"] == {"effort": ["low", "high"]}
    assert caught.value.facts["thread"].id == thread.id


@pytest.mark.req("K21", "T08")
def test_a_loaded_thread_keeps_its_sandbox_and_the_echo_tells(host: ContractHost) -> None:
    thread = host.thread(sandbox="workspace-write")
    host.run(thread, final("done"))
    with pytest.raises(EchoMismatch) as caught:
        host.connection.threads.resume(thread.id, host.wanted(cwd=thread.cwd, sandbox="read-only"))
    assert caught.value.reason == "settings_refused"
    assert "sandbox" in caught.value.facts["differences"]


def test_a_bad_word_is_a_definitive_no(host: ContractHost) -> None:
    with pytest.raises(Refused, match="unknown variant"):
        host.connection.request("thread/start", {"cwd": str(host.workspace()), "sandbox": "nope"})
