"""Our frames and recorded ones against the protocol's generated types and schemas.

`fixtures/<version>` are answers and notifications recorded from real servers. The
types are those of one version and closed, so they serve here and nowhere else.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openai_codex.generated import v2_all as protocol
from openai_codex.generated.notification_registry import NOTIFICATION_MODELS
from pydantic import BaseModel

from shared.base.settings import CodexSettings
from shared.model.operation import turn_operation
from tests.contract.hosts import new_call
from workers.appserver import ThreadSettings, TurnRequest, pick_answer
from workers.appserver.launch import plan_environment
from workers.appserver.record import TurnRecord
from workers.appserver.requests import _ANSWERS
from workers.appserver.runtime import find_codex
from workers.appserver.threads import plan_params, read_thread
from workers.appserver.turns import plan_turn

_FIXTURES = Path(__file__).parent / "fixtures"
# Requests that are ours and what we listen to; the server's own requests have other forms.
_METHOD = re.compile(r"^(?:thread|turn|model|config|account)/[a-zA-Z/]+$")
_VERSIONS = sorted(path.name for path in _FIXTURES.iterdir())
_WANTED = ThreadSettings("/srv/wt", "m", "high", "workspace-write", "do", "crw:r/c/1", auto_compact_token_limit=9)


_SHARED = plan_params(_WANTED, "do")


def _load(version: str, name: str) -> Any:
    return json.loads((_FIXTURES / version / f"{name}.json").read_text())


def _unknown_members(model: BaseModel, sent: dict[str, Any]) -> set[str]:
    """What a type did not take: the server ignores a member that it does not know, silently."""
    return set(sent) - set(model.model_dump(by_alias=True, exclude_unset=True))


@pytest.mark.req("K69", "T22", "C17")
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (protocol.ThreadStartParams, {**_SHARED, "ephemeral": False, "threadSource": "s"}),
        (
            protocol.ThreadForkParams,
            {
                **_SHARED,
                "threadId": "t",
                "lastTurnId": "u",
                "excludeTurns": True,
                "threadSource": "s",
            },
        ),
        (protocol.ThreadResumeParams, {**_SHARED, "threadId": "t", "excludeTurns": True}),
        (
            protocol.TurnStartParams,
            plan_turn("t", TurnRequest(turn_operation(new_call(), 1), "n", "do", "m", "high", cwd="/srv")),
        ),
        (protocol.TurnInterruptParams, {"threadId": "t", "turnId": "u"}),
        (protocol.ThreadReadParams, {"threadId": "t", "includeTurns": False}),
        (protocol.ThreadTurnsListParams, {"threadId": "t", "itemsView": "full", "limit": 20, "cursor": "c"}),
        (protocol.ThreadItemsListParams, {"threadId": "t", "turnId": "u", "limit": 20, "cursor": "c"}),
        (protocol.ConfigReadParams, {"includeLayers": False}),
        (protocol.ModelListParams, {"includeHidden": True, "cursor": "c"}),
    ],
)
def test_what_we_send_is_what_the_protocol_knows(kind: type[BaseModel], params: dict[str, Any]) -> None:
    assert _unknown_members(kind.model_validate(params), params) == set()


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("thread-start", protocol.ThreadStartResponse),
        ("thread-read", protocol.ThreadReadResponse),
        ("fork-last-turn", protocol.ThreadForkResponse),
        ("turns-list-full", protocol.ThreadTurnsListResponse),
        ("turns-list-summary", protocol.ThreadTurnsListResponse),
        ("items-list", protocol.ThreadItemsListResponse),
    ],
)
def test_recorded_answers_have_the_form_of_their_type(version: str, name: str, kind: type[BaseModel]) -> None:
    kind.model_validate(_load(version, name)["result"])


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("name", ["turn-completed-messages", "interrupt-messages"])
def test_recorded_notifications_have_the_form_of_their_type(version: str, name: str) -> None:
    checked = 0
    for message in _load(version, name):
        model = NOTIFICATION_MODELS.get(message.get("method"))
        if model is not None:
            model.model_validate(message["params"])
            checked += 1
    assert checked > 5


@pytest.mark.req("A04")
@pytest.mark.parametrize("version", _VERSIONS)
def test_a_recorded_thread_is_read_with_its_pair(version: str) -> None:
    started, read = (read_thread(_load(version, name)["result"]) for name in ("thread-start", "thread-read"))
    assert started.id == read.id
    assert (started.model, started.effort) == (read.model, read.effort) == ("mock-model", "high")
    assert started.sandbox is not None and read.sandbox is None


def _fold(messages: list[dict[str, Any]]) -> TurnRecord:
    turn = next(message["result"]["turn"]["id"] for message in messages if "result" in message)
    record = TurnRecord("t", turn)
    for message in messages:
        if "method" in message:
            record.take(message["method"], message["params"])
    return record


@pytest.mark.req("A09", "A10", "C29")
@pytest.mark.parametrize("version", _VERSIONS)
def test_a_recorded_turn_folds_to_its_answer_and_its_tokens(version: str) -> None:
    record = _fold(_load(version, "turn-completed-messages"))
    assert record.started and record.client_id == "c1/t1"
    assert record.end is not None and record.end.status == "completed"
    assert pick_answer(record.end.items) == '{"answer":"ok"}'
    assert record.end.usage is not None and record.end.usage.total > 0


@pytest.mark.req("A17")
@pytest.mark.parametrize("version", _VERSIONS)
def test_a_recorded_interrupt_folds_to_its_end(version: str) -> None:
    record = _fold(_load(version, "interrupt-messages"))
    assert record.end is not None and record.end.status == "interrupted"
    assert pick_answer(record.end.items) is None


@pytest.mark.req("K23")
@pytest.mark.parametrize("version", _VERSIONS)
def test_recorded_ends_give_the_same_answers(version: str) -> None:
    ends = _load(version, "turn-ends")
    answers = {name: pick_answer(ends[name]["full"][0]["items"]) for name in ("nophase", "commentary", "empty")}
    assert answers == {"nophase": "plain answer", "commentary": None, "empty": ""}


def _schemas_of_the_server(directory: Path) -> Path:
    program = find_codex(CodexSettings()).program
    argv = [str(program), "app-server", "generate-json-schema", "--experimental", "--out", str(directory / "schema")]
    subprocess.run(argv, env=plan_environment(directory, {}), check=True, capture_output=True)
    return directory / "schema"


def _load_kinds(schemas: Path, name: str) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = json.loads((schemas / f"{name}.json").read_text())["oneOf"]
    return kinds


def _methods_named_by_the_product() -> set[str]:
    """The words of the form of a method that stand as literals where the App Server is spoken to."""
    found: set[str] = set()
    for file in (Path(__file__).parents[2] / "workers").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(_METHOD.findall(node.value))
    return found


@pytest.mark.real
@pytest.mark.req("K41", "K69")
def test_every_method_that_is_asked_for_is_one_of_the_server_s_and_none_that_is_gone(tmp_path: Path) -> None:
    schemas = _schemas_of_the_server(tmp_path)
    kinds = [kind for name in ("ClientRequest", "ServerNotification") for kind in _load_kinds(schemas, name)]
    known = {method for kind in kinds for method in kind["properties"]["method"]["enum"]}
    asked = _methods_named_by_the_product()
    assert {"thread/start", "thread/fork", "turn/start", "turn/interrupt"} <= asked & known
    assert asked - known == set() and "thread/rollback" not in asked


@pytest.mark.real
@pytest.mark.req("C22")
def test_our_answers_to_the_server_fit_its_own_schemas(tmp_path: Path) -> None:
    schemas = _schemas_of_the_server(tmp_path)
    files = {
        "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
        "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
        "item/permissions/requestApproval": "PermissionsRequestApprovalResponse",
        "item/tool/requestUserInput": "ToolRequestUserInputResponse",
        "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
        "applyPatchApproval": "ApplyPatchApprovalResponse",
        "execCommandApproval": "ExecCommandApprovalResponse",
    }
    assert set(files) == set(_ANSWERS)
    for method, name in files.items():
        jsonschema.validate(_ANSWERS[method], json.loads((schemas / f"{name}.json").read_text()))
