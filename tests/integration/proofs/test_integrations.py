"""An integration is proven while its merge is in the target's history, however far that moved on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.model.rows import NewCallRow
from tests.integration.proofs.host import ProofHost
from tests.repositories import commit_files, git
from workers.ops.integrate import Integrate


@pytest.fixture
def host(tmp_path: Path) -> ProofHost:
    return ProofHost(tmp_path / "h1")


def integrate(host: ProofHost, position: int, **arguments: Any) -> str | None:
    result = host.run_op(Integrate(), position, {"target": "landed", **arguments})
    host.store(position, NewCallRow("completed", result.facts, **result.columns), "integrate", None)
    commit: str | None = result.output["commit"]
    return commit


@pytest.mark.req("O03", "P15")
def test_the_target_may_move_on_and_must_not_move_back(host: ProofHost, tmp_path: Path) -> None:
    host.build(1, {"a.txt": "a\n"})
    head = host.commit(2).output["commit"]
    merged = integrate(host, 3, heads={"n": head})
    assert merged is not None and host.unproven() == {}

    git(tmp_path, "clone", "-q", "--branch", "landed", str(host.hub), "work")
    commit_files(tmp_path / "work", {"later.txt": "x\n"}, "somebody goes on")
    git(tmp_path / "work", "push", "-q", "origin", "landed")
    assert host.unproven() == {}

    git(host.hub, "update-ref", "refs/heads/landed", host.base)
    assert host.unproven() == {3: "not_on_target"}
    git(host.hub, "update-ref", "-d", "refs/heads/landed")
    assert host.unproven() == {3: "not_on_target"}


@pytest.mark.req("O03")
def test_a_hub_that_is_away_proves_nothing(host: ProofHost) -> None:
    host.build(1, {"a.txt": "a\n"})
    integrate(host, 3, heads={"n": host.commit(2).output["commit"]})
    away = host.hub.rename(host.hub.with_name("away.git"))
    answer = host.prove()
    away.rename(host.hub)

    assert [verdict.reason for verdict in answer.verdicts.values()] == ["hub_unreachable"]
    assert host.unproven() == {}


@pytest.mark.req("O03")
def test_a_merge_that_was_refused_is_a_recorded_fact(host: ProofHost) -> None:
    host.store(3, NewCallRow("completed", {"ref": "refs/heads/landed", "reason": "conflict"}), "integrate", None)

    assert host.unproven() == {}
