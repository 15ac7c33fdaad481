"""Packets: the texts that the farm itself puts before a model, beside the script's own prompts.

A packet is versioned data with a fixed template. Its digest is taken over the
data, never over the text, so that a reworded template does not make another call.
Source: definition of packets; journal document, "The suffix" and "Held calls".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.base.canonical import digest_json

VERSION = 1
# The last line of a conversation that is told again; the call's own prompt stands behind it.
ASKED_NOW = "What is asked now:"
_TAIL_LIMIT_CHARACTERS = 2048
# A server takes an input of a mebibyte at most, and the call's own prompt comes behind the packet.
CHECKPOINT_LIMIT_CHARACTERS = 200_000
_TURN_LIMIT_CHARACTERS = 40_000


@dataclass(frozen=True)
class Packet:
    """Shape: `kind` one of task, prompt, repair, fix, continue, checkpoint; `data` JSON, without the role's text."""

    kind: str
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain data, as a row keeps it."""
        return {"version": VERSION, "kind": self.kind, **self.data}

    def digest(self) -> str:
        """What an input digest covers."""
        return digest_json(self.to_json())

    def render(self) -> str:
        """The text a model reads."""
        return "\n".join(_TEMPLATES[self.kind](self.data)).strip() + "\n"


def task(prompt: str, *, node: str | None = None, start: str | None = None, kept: Sequence[str] = ()) -> Packet:
    """A call that starts a thread.

    Args:
        start: the commit its directory stands at.
        kept: refs on the hub that keep work of earlier allocations of the node which is no longer in the directory.
    """
    return Packet("task", {"prompt": prompt, "node": node, "start": start, "kept": list(kept)})


def repair(errors: Sequence[str]) -> Packet:
    """The one repair turn: what is wrong with the answer."""
    return Packet("repair", {"errors": list(errors)})


def fix(findings: Sequence[str], failed_tests: Sequence[Mapping[str, Any]]) -> Packet:
    """What a verification or a review found; `failed_tests` as an op's output lists them."""
    return Packet("fix", {"findings": list(findings), "failed_tests": [dict(entry) for entry in failed_tests]})


def prompt(text: str, kept: Sequence[str] = ()) -> Packet:
    """What a conversation that goes on is asked next."""
    return Packet("prompt", {"prompt": text, "kept": list(kept)})


def go_on(reason: str) -> Packet:
    """A turn that was stopped goes on in its own thread."""
    return Packet("continue", {"reason": reason})


def checkpoint(
    turns: Sequence[Mapping[str, Any]], *, node: str | None = None, limit: int = CHECKPOINT_LIMIT_CHARACTERS
) -> Packet:
    """A new thread in place of one that cannot be opened: each turn's `input` and `answer`, once, oldest first.

    A turn is cut in its middle where it is too long; where all are too many the oldest give way, but for the
    first, which says what the conversation is about.

    Args:
        node: the node whose worktree holds what the conversation did.
    """
    cut = [{"input": _cut(turn["input"]), "answer": _cut(turn["answer"])} for turn in turns]
    kept, left = cut[:1], limit - sum(map(_size, cut[:1]))
    recent: list[dict[str, str]] = []
    for turn in reversed(cut[1:]):
        left -= _size(turn)
        if left < 0:
            break
        recent.append(turn)
    omitted = len(cut) - len(kept) - len(recent)
    return Packet("checkpoint", {"turns": [*kept, *reversed(recent)], "omitted": omitted, "node": node})


def _cut(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    if len(text) <= _TURN_LIMIT_CHARACTERS:
        return text
    half = _TURN_LIMIT_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _size(turn: Mapping[str, str]) -> int:
    return len(turn["input"]) + len(turn["answer"])


def _task(data: Mapping[str, Any]) -> list[str]:
    return [data["prompt"], *kept_lines(data["kept"])]


def kept_lines(kept: Sequence[str]) -> list[str]:
    """What a call on a node is told of the work that its directory does not hold."""
    if not kept:
        return []
    lines = ["", "Earlier work on this node is not in your directory. It is kept on:"]
    lines += [f"- {ref}" for ref in kept]
    return [*lines, "Look at it with git show or git diff if it helps; do not merge it blindly."]


def _repair(data: Mapping[str, Any]) -> list[str]:
    return [
        "Your last answer does not have the form it was asked for:",
        *(f"- {error}" for error in data["errors"]),
        "Give the whole answer again in that form. Change nothing else.",
    ]


def failed_test_lines(failed_tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The failed tests of a verification as lines: where, which, and the end of what was printed."""
    lines: list[str] = []
    for entry in failed_tests:
        names = ", ".join([*entry.get("tests", ()), *entry.get("packages", ())])
        place = " / ".join(str(entry[key]) for key in ("job", "step") if entry.get(key))
        lines.append(f"- {place or 'verification'}{': ' + names if names else ''}")
        tail = str(entry.get("tail", ""))[-_TAIL_LIMIT_CHARACTERS:]
        lines += [f"    {line}" for line in tail.splitlines()]
    return lines


def _fix(data: Mapping[str, Any]) -> list[str]:
    lines = ["The change does not hold yet."]
    if data["findings"]:
        lines += ["Findings:", *(f"- {finding}" for finding in data["findings"])]
    if data["failed_tests"]:
        lines += ["Failed:", *failed_test_lines(data["failed_tests"])]
    return [*lines, "Mend it in the same directory."]


def _continue(data: Mapping[str, Any]) -> list[str]:
    return [
        f"Your turn was stopped ({data['reason']}). What you changed is still there.",
        "Carry on where you were and answer in the form you were asked for.",
    ]


def _checkpoint(data: Mapping[str, Any]) -> list[str]:
    lines = ["This conversation goes on in a new thread. What was said before:"]
    for number, turn in enumerate(data["turns"]):
        if number == 1 and data["omitted"]:
            lines += ["", f"({data['omitted']} turns are left out here.)"]
        lines += ["", "You were asked:", turn["input"], "You answered:", turn["answer"]]
    if data["node"]:
        lines += ["", "Your directory holds the files as that left them."]
    return [*lines, "", ASKED_NOW]


_TEMPLATES = {
    "task": _task,
    "prompt": _task,
    "repair": _repair,
    "fix": _fix,
    "continue": _continue,
    "checkpoint": _checkpoint,
}
