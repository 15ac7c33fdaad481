"""Turns that only a real server can have: retried streams, subagents, a compaction in the middle."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
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


def _final(text: str, **members: Any) -> dict[str, Any]:
    return {"out": [{"msg": text, "phase": "final_answer"}], **members}


class Runner:
    """Runs one turn on a server of its own. Shape: `model` what the server asked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.model = ScriptedModel()
        self._service: AppServerService | None = None

    def __call__(
        self,
        *steps: Mapping[str, Any],
        scripts: Mapping[str, Script] | None = None,
        retries: int = 0,
        features: Mapping[str, bool] | None = None,
        compact_limit: int | None = None,
    ) -> TurnEnd:
        """The end of a turn with these steps; named scripts, retries, features and a compact limit on demand."""
        self.model.scripts.update(scripts or {})
        config = {**provider_config(self.model.start().base_url, retries=retries), "features": dict(features or {})}
        self._service = AppServerService(Settings(codex=CodexSettings(config=config)), self._directory)
        work = self._directory / "work"
        work.mkdir()
        wanted = ThreadSettings(
            str(work), "scripted", "high", "read-only", "x", "crw:r/c/1", auto_compact_token_limit=compact_limit
        )
        connection = self._service.connection()
        thread = connection.threads.start(wanted)
        with connection.turns.cursor(thread.id) as cursor:
            prompt = f"[[steps:{json.dumps(steps)}]]"
            connection.turns.start(cursor, TurnRequest(f"{_CALL}/t1", secrets.token_hex(4), prompt, "scripted", "high"))
            end = cursor.wait(_TURN_SECONDS)
        assert end is not None, "the turn did not end in time"
        return end

    def close(self) -> None:
        """Stop server and model."""
        if self._service is not None:
            self._service.stop()
            self.model.stop()


@pytest.fixture
def run_turn(tmp_path: Path) -> Iterator[Runner]:
    """A runner, closed at the end."""
    runner = Runner(tmp_path)
    yield runner
    runner.close()


@pytest.mark.req("T05")
def test_a_call_has_its_commands_and_neither_web_search_nor_subagents(run_turn: Runner) -> None:
    run_turn(_final("done"))
    body = run_turn.model.requests()[-1]["body"]
    tools = {tool.get("name") or tool["type"] for tool in body["tools"]}
    assert "exec_command" in tools
    assert not {name for name in tools if "search" in name or "agent" in name or "mcp" in name or "goal" in name}


@pytest.mark.req("A08", "K12")
def test_the_model_is_asked_with_the_guarded_schema(run_turn: Runner) -> None:
    run_turn(_final("done"))
    asked = run_turn.model.requests()[-1]["body"]["text"]["format"]
    assert asked["type"] == "json_schema"
    assert asked["schema"]["required"] == ["answer"]
    assert f"[send {_CALL}/t1 " in asked["schema"]["description"]


@pytest.mark.req("A10", "K23")
def test_of_an_answer_that_a_broken_stream_repeated_the_last_counts(run_turn: Runner) -> None:
    end = run_turn(_final("first try", cut=True), _final("second try"), retries=2)
    assert end.status == "completed"
    assert pick_answer(end.items) == "second try"


@pytest.mark.req("T12")
def test_a_subagent_s_turn_is_not_its_parent_s(run_turn: Runner) -> None:
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
def test_a_compaction_in_the_middle_is_not_charged_as_a_context(run_turn: Runner) -> None:
    end = run_turn(
        {"out": [{"exec": "true"}], "usage": {"input": 5000, "output": 10}},
        _final("done", usage={"input": 100, "output": 10}),
        compact_limit=1000,
        scripts={"kind:compaction": [_final("summary", usage={"input": 50, "output": 5})]},
    )
    assert [item["type"] for item in end.items].count("contextCompaction") == 1
    assert end.usage is not None and end.usage.total == 5010 + 55 + 110
