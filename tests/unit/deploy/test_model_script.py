"""The language of the scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.demo.model_script import (
    DEFAULT_STEP,
    choose_script,
    fill_in,
    item_events,
    read_marker,
    response_item,
    step_items,
)
from shared.model import packets


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def test_the_newest_text_with_a_marker_decides() -> None:
    items = [_user("[[script:one]]"), _user("crw-flow-op: c/t2\n[[script:two]] go"), _user("no marker")]
    assert choose_script(items).key == "two"
    assert choose_script([_user("nothing")]).key == "default"
    assert choose_script([{"role": "assistant", "content": "[[script:x]]"}]).key == "default"


@pytest.mark.parametrize("steps", [[{"out": []}], [{"http": 500}, {"out": [{"msg": "]]"}]}], []])
def test_steps_in_the_prompt_are_read_to_the_end_of_their_line(steps: list[Any]) -> None:
    chosen = read_marker(f"before [[steps:{json.dumps(steps)}]]\nnext line ]]")
    assert chosen is not None and chosen.steps == (steps or [DEFAULT_STEP])


def test_the_first_marker_of_a_text_is_its_own() -> None:
    inner = read_marker('[[steps:[{"out":[{"msg":"[[script:child]]"}]}]]]')
    assert inner is not None and inner.key.startswith("inline:")
    assert choose_script([_user("[[script:one]] then [[steps:[]]]")]).key == "one"


def test_steps_that_are_no_json_are_an_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        read_marker("[[steps:[{]]")


@pytest.mark.parametrize("steps", ["5", '{"out": []}', "[1]"])
def test_steps_that_are_no_list_of_objects_are_an_error(steps: str) -> None:
    with pytest.raises(ValueError, match="no list of objects"):
        read_marker(f"[[steps:{steps}]]")


def test_placeholders_are_filled_in_everywhere() -> None:
    spec = {"msg": "${op} ${req}", "list": ["${agent:0}", {"repeat": "ab", "n": 2}]}
    items = [_user("crw-flow-op: c1/t1\nx"), _user("crw-flow-op: c1/t2\ny")]
    assert fill_in(spec, items, 7) == {"msg": "c1/t2 7", "list": ["missing", "abab"]}


def test_a_step_without_items_says_ok_unless_it_fails() -> None:
    assert step_items({})[0]["msg"] == "ok"
    assert step_items({"failed": {"code": "x"}}) == []
    assert step_items({"out": []}) == []


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"msg": "x", "phase": None}, "message"),
        ({"json": {"a": 1}}, "message"),
        ({"reasoning": "x"}, "reasoning"),
        ({"exec": "ls", "yield_time_ms": 1}, "function_call"),
        ({"call": "spawn_agent", "ns": "n", "args": {}}, "function_call"),
        ({"custom": "apply_patch", "input": "x"}, "custom_tool_call"),
        ({"raw": {"type": "web_search_call"}}, "web_search_call"),
    ],
)
def test_each_item_has_its_form(spec: dict[str, Any], kind: str) -> None:
    assert response_item(spec, "1_0")["type"] == kind


def test_a_command_carries_its_arguments() -> None:
    item = response_item({"exec": "ls", "yield_time_ms": 1}, "1_0")
    assert json.loads(item["arguments"]) == {"cmd": "ls", "yield_time_ms": 1}


def test_an_unknown_item_is_named() -> None:
    with pytest.raises(ValueError, match="has none of the members"):
        response_item({"shout": "x"}, "1_0")


def test_deltas_make_up_the_whole_message() -> None:
    events = [event for event, _ in item_events({"msg": "abcdefg", "deltas": 3}, 0, "1_0")]
    assert "".join(event["delta"] for event in events if event["type"].endswith("delta")) == "abcdefg"
    assert events[-1]["type"] == "response.output_item.done"


def test_of_a_conversation_that_is_told_again_only_what_is_asked_now_names_a_script() -> None:
    told = packets.checkpoint([{"input": "Build. [[script:build]]", "answer": "built"}], node="n").render()
    assert choose_script([_user(f"{told}\nMend. [[script:mend]]")]).key == "mend"
