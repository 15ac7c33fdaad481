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
_TAIL_LIMIT_CHARACTERS = 2048


@dataclass(frozen=True)
class Packet:
    """Shape: `kind` one of task, repair, fix, continue, checkpoint; `data` JSON, without the prompt's role text."""

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


def go_on(reason: str) -> Packet:
    """A turn that was stopped goes on in its own thread."""
    return Packet("continue", {"reason": reason})


def checkpoint(turns: Sequence[Mapping[str, Any]]) -> Packet:
    """A new thread in place of one that cannot be opened: each turn's `input` and `answer`, once."""
    return Packet("checkpoint", {"turns": [dict(turn) for turn in turns]})


def _task(data: Mapping[str, Any]) -> list[str]:
    lines = [data["prompt"]]
    if data["kept"]:
        lines += ["", "Earlier work on this node is not in your directory. It is kept on:"]
        lines += [f"- {ref}" for ref in data["kept"]]
        lines += ["Look at it with git show or git diff if it helps; do not merge it blindly."]
    return lines


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
    for number, turn in enumerate(data["turns"], 1):
        lines += ["", f"[{number}] You were asked:", str(turn["input"]), f"[{number}] You answered:"]
        answer = turn["answer"]
        lines.append(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
    return [*lines, "", "What is asked now:"]


_TEMPLATES = {"task": _task, "repair": _repair, "fix": _fix, "continue": _continue, "checkpoint": _checkpoint}
