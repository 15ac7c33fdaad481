"""Turns read back: pages, views, and what cannot be read."""

from __future__ import annotations

import pytest

from shared.base.errors import Unreadable
from tests.contract.hosts import ContractHost, final
from workers.appserver import make_transcript, turns

_SEVERAL = {"out": [{"msg": "one", "phase": "commentary"}, {"exec": "echo hi"}]}


@pytest.mark.req("A12", "A13")
def test_an_old_turn_is_found_pages_away(host: ContractHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_PAGE_TURNS", 2)
    thread = host.thread()
    ends = [host.run(thread, final(str(number))) for number in range(5)]
    for number, end in enumerate(ends):
        assert host.read(end).items[-1]["text"] == str(number)


@pytest.mark.req("A12")
def test_a_turn_that_came_as_a_summary_is_completed_item_by_item(
    host: ContractHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_PAGE_ITEMS", 2)
    monkeypatch.setattr(turns, "_VIEW", "summary")
    thread = host.thread()
    host.run(thread, final("another turn of the thread"))
    end = host.run(thread, _SEVERAL, final("done"))
    kinds = [item["type"] for item in host.read(end).items]
    assert kinds == ["userMessage", "agentMessage", "commandExecution", "agentMessage"]


@pytest.mark.req("A14")
def test_a_turn_that_cannot_be_read_is_not_empty(host: ContractHost) -> None:
    thread = host.thread()
    with pytest.raises(Unreadable):
        host.connection.turns.read_full(thread.id, "01a22d4c-16ab-79f2-8ef1-000000000000")


def test_a_turn_that_the_thread_never_had_is_none(host: ContractHost) -> None:
    thread = host.thread()
    host.run(thread, final("done"))
    assert host.connection.turns.read_full(thread.id, "01a22d4c-16ab-79f2-8ef1-000000000000") is None


def test_a_transcript_tells_messages_and_commands_in_order(host: ContractHost) -> None:
    end = host.run(host.thread(), _SEVERAL, final("done"))
    entries = make_transcript(end.items)
    assert [entry["kind"] for entry in entries] == ["input", "message", "command", "message"]
    assert entries[2]["exit_status"] == 0 and "hi" in entries[2]["output"]


def test_long_output_is_kept_by_its_two_ends(host: ContractHost) -> None:
    end = host.run(host.thread(), {"out": [{"exec": "seq 1 20000"}]}, final("done"))
    output = make_transcript(end.items)[1]["output"]
    assert len(output) < 10_000 and "20000" in output


def test_a_command_works_in_the_thread_s_directory(host: ContractHost) -> None:
    thread = host.thread()
    host.run(thread, {"out": [{"exec": "pwd > where.txt"}]}, final("done"))
    workspace = host.directory / "work"
    assert [file.read_text().strip() for file in workspace.glob(f"{thread.cwd.rsplit('/', 1)[1]}/where.txt")] == [
        thread.cwd
    ]
