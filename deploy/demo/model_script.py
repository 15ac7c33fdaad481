"""The language in which a scripted model is told what to answer. No I/O.

A prompt names its script: `[[script:NAME]]` a named one, `[[steps:[{...}, ...]]]` a
JSON list of steps in the prompt itself (to the last `]]` of its line). The newest text
with a marker decides, and of one that tells a conversation only what is asked now;
without one it is the script `default`. Step k answers the
k-th request of a turn, the last step repeats. A script may also be
`{"by_thread": true, "steps": [...]}`: then steps are counted over a thread's turns.

Shape of a step (every member optional):
    out: list of items; default one final answer "ok".
    delay: seconds before the response begins; before/after: seconds before the items, before the end.
    http: a status to answer with instead, with `body` (JSON) and `headers`.
    hang / hang_late: true or seconds of silence before / after the items, and no end when true.
    cut: close after the items without an end; reset: close before any byte.
    failed: {"code", "message"}; incomplete: a reason; end_turn: value in the end event.
    usage: {"input", "cached", "output", "reasoning"} tokens.
    wait_event: a name; the step waits until it is released (at most two minutes).

Shape of an item:
    {"msg": TEXT, "phase": "final_answer" | "commentary" | null, "deltas": n, "delta_delay": seconds}
    {"json": VALUE}                 a final answer that is this JSON
    {"reasoning": TEXT}
    {"exec": "shell command", ...}  a command, with more arguments of the tool beside it
    {"call": NAME, "ns": ..., "args": {...}}, {"custom": NAME, "input": TEXT}, {"raw": {...}}

In strings `${op}` is the operation of the newest marked turn, `${req}` the request's
number, `${agent:N}` the N-th agent id the input names; `{"repeat": "x", "n": 1000}`
is a long text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.base.canonical import digest_text
from shared.model.packets import ASKED_NOW

Step = dict[str, Any]
Script = list[Step] | dict[str, Any]

_NAMED = re.compile(r"\[\[script:([A-Za-z0-9_.:-]+)\]\]")
_INLINE = "[[steps:"
DEFAULT_STEP: Step = {"out": [{"msg": "ok", "phase": "final_answer"}]}


@dataclass(frozen=True)
class Chosen:
    """Which script a prompt asks for. `steps` is set when they stand in the prompt itself."""

    key: str
    steps: list[Step] | None = None


def item_text(item: Mapping[str, Any]) -> str:
    """Every text of one input item."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return ""


def read_marker(text: str) -> Chosen | None:
    """The script that a text names, or None.

    Raises:
        ValueError: the steps in the text are no JSON list.
    """
    # A conversation that is told again holds the markers of its earlier prompts.
    text = text.rpartition(ASKED_NOW)[2]
    named, start = _NAMED.search(text), text.find(_INLINE)
    # Steps may hold a text with a marker of its own, for a subagent: the first marker is the prompt's.
    if named and (start < 0 or named.start() < start):
        return Chosen(named[1])
    if start < 0:
        return None
    line = text[start + len(_INLINE) :].split("\n", 1)[0]
    body = line[: line.rindex("]]")]
    steps = json.loads(body)
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ValueError(f"the steps {body} are no list of objects")
    return Chosen("inline:" + digest_text(body)[:12], steps or [DEFAULT_STEP])


def choose_script(items: Sequence[Any]) -> Chosen:
    """The script of a request, from its newest user text with a marker."""
    for item in reversed(items):
        if isinstance(item, dict) and item.get("role") == "user":
            chosen = read_marker(item_text(item))
            if chosen:
                return chosen
    return Chosen("default")


def script_steps(script: Script | None) -> tuple[list[Step], bool]:
    """`(steps, counted over the whole thread)` of a named script."""
    if isinstance(script, dict):
        return list(script["steps"]), bool(script.get("by_thread"))
    return (script or [DEFAULT_STEP]), False


def step_items(step: Step) -> list[dict[str, Any]]:
    """The items a step answers with."""
    if "out" in step:
        return list(step["out"])
    silent = step.get("failed") or step.get("cut") or step.get("incomplete")
    return [] if silent else list(DEFAULT_STEP["out"])


def fill_in(value: Any, items: Sequence[Any], number: int) -> Any:
    """A step's value with its `${...}` and `{"repeat", "n"}` replaced."""
    if isinstance(value, dict):
        if set(value) == {"repeat", "n"}:
            return str(value["repeat"]) * int(value["n"])
        return {key: fill_in(member, items, number) for key, member in value.items()}
    if isinstance(value, list):
        return [fill_in(member, items, number) for member in value]
    if isinstance(value, str) and "${" in value:
        operations = [
            found
            for item in items
            if isinstance(item, dict)
            for found in re.findall(r"crw-flow-op: (\S+)", item_text(item))
        ]
        value = value.replace("${req}", str(number)).replace("${op}", operations[-1] if operations else "")
        return re.sub(r"\$\{agent:(-?\d+)\}", lambda match: _agent(items, int(match[1])), value)
    return value


def _agent(items: Sequence[Any], index: int) -> str:
    outputs = (
        item.get("output") for item in items if isinstance(item, dict) and str(item.get("type", "")).endswith("_output")
    )
    texts = (output if isinstance(output, str) else json.dumps(output) for output in outputs)
    agents = [a for text in texts for a in re.findall(r'"agent_id"\s*:\s*"([^"]+)"', text.replace('\\"', '"'))]
    try:
        return str(agents[index])
    except IndexError:
        return "missing"


def message_of(spec: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """`(text, phase)` when the item is a message, else None."""
    if "json" in spec:
        return json.dumps(spec["json"], ensure_ascii=False), "final_answer"
    if "msg" in spec:
        return str(spec["msg"]), spec.get("phase")
    return None


def response_item(spec: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """One scripted item as an item of the Responses API; `mark` makes its ids unique.

    Raises:
        ValueError: the item has no form this language knows.
    """
    message = message_of(spec)
    if message:
        text, phase = message
        content = [{"type": "output_text", "text": text}]
        item = {"type": "message", "role": "assistant", "id": spec.get("id", f"msg_{mark}"), "content": content}
        return {**item, "phase": phase} if phase else item
    if "raw" in spec:
        return dict(spec["raw"])
    if "reasoning" in spec:
        summary = [{"type": "summary_text", "text": spec["reasoning"]}]
        return {"type": "reasoning", "id": f"rs_{mark}", "encrypted_content": None, "summary": summary}
    call_id = spec.get("call_id", f"call_{mark}")
    if "custom" in spec:
        return {
            "type": "custom_tool_call",
            "id": f"ct_{mark}",
            "call_id": call_id,
            "name": spec["custom"],
            "input": spec.get("input", ""),
        }
    if "exec" in spec:
        more = {name: value for name, value in spec.items() if name not in ("exec", "call_id")}
        name, arguments = "exec_command", {"cmd": spec["exec"], **more}
    elif "call" in spec:
        name, arguments = spec["call"], spec.get("args", {})
    else:
        known = ("msg", "json", "exec", "call", "reasoning", "custom", "raw")
        raise ValueError(f"the item {json.dumps(spec)} has none of the members {', '.join(known)}")
    call = {
        "type": "function_call",
        "id": f"fc_{mark}",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
    }
    return {**call, "namespace": spec["ns"]} if spec.get("ns") else call


def item_events(spec: Mapping[str, Any], index: int, mark: str) -> Iterator[tuple[dict[str, Any], float]]:
    """The stream events of one item, each with the seconds to wait before it."""
    item = response_item(spec, mark)
    deltas = int(spec.get("deltas", 0))
    if deltas and item["type"] == "message":
        text = item["content"][0]["text"]
        size = max(1, -(-len(text) // deltas))
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}, 0.0
        for start in range(0, len(text), size):
            yield (
                {
                    "type": "response.output_text.delta",
                    "item_id": item["id"],
                    "output_index": index,
                    "content_index": 0,
                    "delta": text[start : start + size],
                },
                float(spec.get("delta_delay", 0)),
            )
    yield {"type": "response.output_item.done", "output_index": index, "item": item}, 0.0
