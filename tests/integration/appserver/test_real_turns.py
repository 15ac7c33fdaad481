"""Turns that only a real server can have: retried streams, subagents, a compaction in the middle."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.model_script import Script
from deploy.demo.scripted_model import ScriptedModel, provider_config
from shared.base.settings import CodexSettings, Settings
from workers.appserver import AppServerService, ThreadSettings, TurnEnd, TurnRequest, pick_answer

pytestmark = pytest.mark.real

_CALL = "c" + "a" * 24
_TURN_SECONDS = 60.0
RunTurn = Callable[..., TurnEnd]


def _final(text: str, **members: Any) -> dict[str, Any]:
    return {"out": [{"msg": text, "phase": "final_answer"}], **members}


@pytest.fixture
def run_turn(tmp_path: Path) -> Iterator[RunTurn]:
    """Runs one turn on a server of its own: steps, named scripts, retries, features, a compact limit."""
    opened: list[Callable[[], None]] = []

    def run(
        *steps: Mapping[str, Any],
        scripts: Mapping[str, Script] | None = None,
        retries: int = 0,
        features: Mapping[str, bool] | None = None,
        compact_limit: int | None = None,
    ) -> TurnEnd:
        model = ScriptedModel(scripts).start()
        config = {**provider_config(model.base_url, retries=retries), "features": dict(features or {})}
        service = AppServerService(Settings(codex=CodexSettings(config=config)), tmp_path)
        opened.extend([service.stop, model.stop])
        work = tmp_path / "work"
        work.mkdir()
        wanted = ThreadSettings(
            str(work), "scripted", "high", "read-only", "x", "crw:r/c/1", auto_compact_token_limit=compact_limit
        )
        connection = service.connection()
        thread = connection.threads.start(wanted)
        prompt = f"[[steps:{json.dumps(steps)}]]"
        with connection.turns.cursor(thread.id) as cursor:
            request = TurnRequest(f"{_CALL}/t1", secrets.token_hex(4), prompt, "scripted", "high")
            connection.turns.start(cursor, request)
            end = cursor.wait(_TURN_SECONDS)
        assert end is not None, "the turn did not end in time"
        return end

    yield run
    for close in opened:
        close()


@pytest.mark.req("A10", "K23")
def test_of_an_answer_that_a_broken_stream_repeated_the_last_counts(run_turn: RunTurn) -> None:
    end = run_turn(_final("first try", cut=True), _final("second try"), retries=2)
    assert end.status == "completed"
    assert pick_answer(end.items) == "second try"


@pytest.mark.req("T12")
def test_a_subagent_s_turn_is_not_its_parent_s(run_turn: RunTurn) -> None:
    spawn = {"call": "spawn_agent", "ns": "multi_agent_v1", "args": {"message": "[[script:child]]"}}
    wait = {"call": "wait_agent", "ns": "multi_agent_v1", "args": {"targets": ["${agent:0}"], "timeout_ms": 10000}}
    end = run_turn(
        {"out": [spawn]},
        {"out": [wait]},
        _final("the parent's"),
        scripts={"child": [_final("the child's")]},
        features={"multi_agent": True},
    )
    assert pick_answer(end.items) == "the parent's"
    tools = [item["tool"] for item in end.items if item["type"] == "collabAgentToolCall"]
    assert tools == ["spawnAgent", "wait"]
    # Three model requests of the parent; the child's own are charged to the child's thread.
    assert end.usage is not None and end.usage.total == 3 * 18


@pytest.mark.req("C29", "K62")
def test_a_compaction_in_the_middle_is_not_charged_as_a_context(run_turn: RunTurn) -> None:
    end = run_turn(
        {"out": [{"exec": "true"}], "usage": {"input": 5000, "output": 10}},
        _final("done", usage={"input": 100, "output": 10}),
        compact_limit=1000,
        scripts={"kind:compaction": [_final("summary", usage={"input": 50, "output": 5})]},
    )
    assert [item["type"] for item in end.items].count("contextCompaction") == 1
    assert end.usage is not None and end.usage.total == 5010 + 55 + 110
