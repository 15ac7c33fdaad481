"""A thread that is deleted is gone for good; one that was forked from stays until its forks are gone."""

from __future__ import annotations

import pytest

from shared.base.errors import Refused
from tests.contract.hosts import ContractHost, final
from workers.appserver import pick_answer


@pytest.mark.req("RULE39")
@pytest.mark.parametrize("cold", [False, True])
def test_a_thread_is_deleted_after_its_forks_and_not_before(own_host: ContractHost, cold: bool) -> None:
    thread, wanted = own_host.thread(), own_host.wanted()
    end = own_host.run(thread, final("source"))
    fork = own_host.connection.threads.fork(thread.id, end.turn_id, wanted)
    forked = own_host.run(fork, final("forked"))
    if cold:
        own_host.restart()
    with pytest.raises(Refused, match="forked history still references it"):
        own_host.connection.threads.delete(thread.id)
    for turn, answer in ((end.turn_id, "source"), (forked.turn_id, "forked")):
        kept = own_host.connection.turns.read_full(fork.id, turn)
        assert kept is not None and pick_answer(kept.items) == answer
    own_host.connection.threads.delete(fork.id)
    own_host.connection.threads.delete(thread.id)
    home = own_host.directory / "codex-home"
    for gone in (fork, thread):
        with pytest.raises(Refused, match="thread not loaded"):
            own_host.connection.threads.read(gone.id)
        own_host.connection.threads.delete(gone.id)
        assert not [file for file in home.rglob(f"*{gone.id}*.json*") if file.is_file()], "no rollout is left"
