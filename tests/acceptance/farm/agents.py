"""What a farm's processes need to run agent calls on fake hosts: settings, a hub, roles, prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.model.roles import Role, default_sandbox
from tests.fakehost.install import FakeHost
from tests.repositories import git

MODEL = "gpt-test"
ROLES = {name: Role(name, MODEL, "low", default_sandbox(name), "") for name in ("executor", "reviewer")}
SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


def say(summary: str) -> dict[str, Any]:
    """The step that answers with this summary."""
    return {"out": [{"msg": json.dumps({"summary": summary}), "phase": "final_answer"}]}


def prompt(*steps: dict[str, Any]) -> str:
    """A prompt that tells the fake's model what to do."""
    return f"Do it.\n[[steps:{json.dumps(list(steps))}]]"


def worker_settings(fake: FakeHost) -> dict[str, str]:
    """Settings of a worker whose App Server is this fake."""
    return {
        "codex__bin": str(fake.program),
        "codex__config": json.dumps({"model_provider": "scripted"}),
        "codex__models": json.dumps([MODEL]),
        "codex__request_timeout_seconds": "3",
    }


def agent_spec(hub: Path) -> dict[str, Any]:
    """Members of the spec of a run with agent calls on this hub."""
    return {"hub": str(hub), "base": git(hub, "rev-parse", "main"), "roles": ROLES}
