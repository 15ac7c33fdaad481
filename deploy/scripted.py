"""Settings that put the scripted model behind every role: what `crw demo` and `crw up --scripted` configure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from deploy.demo.scripted_model import ScriptedModel, provider_config
from deploy.demo.scripts import make_scripts
from shared.base.settings import RoleSettings
from shared.model.roles import BUILT_IN_ROLES

MODEL = "scripted"
EFFORT = "low"


def start_model() -> ScriptedModel:
    """Start the provider, with the demo's scripts, on a free local port; it ends with this process at the latest."""
    return ScriptedModel(make_scripts(sys.executable)).start()


def scripted_settings(base_url: str, configured: Mapping[str, RoleSettings] | None = None) -> dict[str, Any]:
    """Settings under which the App Server asks the scripted provider, and each role without a model has one."""
    roles = {name: role for name, role in (configured or {}).items()}
    names = (*BUILT_IN_ROLES, *(name for name in roles if name not in BUILT_IN_ROLES))
    return {
        "codex": {"config": provider_config(base_url, model=MODEL), "models": [MODEL]},
        "roles": {
            name: {"model": MODEL, "effort": EFFORT} for name in names if name not in roles or roles[name].model is None
        },
    }


def as_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the variables of a child's environment: tables as JSON, a table's member by two underscores."""
    variables: dict[str, str] = {}
    for name, value in settings.items():
        if name == "codex":
            variables |= {f"CRW_CODEX__{member.upper()}": json.dumps(inner) for member, inner in value.items()}
        else:
            variables[f"CRW_{name.upper()}"] = value if isinstance(value, str) else json.dumps(value)
    return variables
