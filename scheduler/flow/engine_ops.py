"""The ops that the engine answers itself: their only effect is their row, one transaction with what they answer.

What is asked is checked at the script's line, whether the position replays or not. The rule
runs only where it runs live: a resumed script gets the answer that was recorded, also when
the rule would answer otherwise by now.
Source: journal document, "Ops"; definitions of tiers and steps, and of checks.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.base.errors import FlowError
from shared.model.failure_class import classify, code_of
from shared.model.outcome import Ended
from shared.model.review import check_review
from shared.model.rows import NewCallRow
from shared.model.tiers import DEFAULT_TIERS, check_history, decide_step

Answer = Callable[[], Awaitable[NewCallRow]]


def completed(output: Mapping[str, Any], detail: Mapping[str, Any] = {}) -> NewCallRow:
    """The one row of such an op. A `reason` in its detail is the word that lists of calls show."""
    return NewCallRow("completed", detail, result=json.dumps(output).encode())


class EngineOps:
    """The engine's ops for one run. Shape: `roles` the names of the run's roles."""

    def __init__(self, roles: Collection[str], clock: Callable[[], Awaitable[datetime]]) -> None:
        self._roles = roles
        self._clock = clock

    def answer(self, name: str, given: Mapping[str, Any], parsed: Mapping[str, Any]) -> Answer | None:
        """What makes the row of an op at a position that runs live; None for an op that workers run.

        Args:
            given: its arguments, results of calls as their ends.
            parsed: the same as they are stored.

        Raises:
            FlowError: arguments that do not fit each other or this run.
        """
        if name == "clock":
            return self._answer_clock
        if name == "classify":
            return _answering(lambda: _classify(given["result"]))
        if name == "tier_step":
            history, tiers = tuple(given["history"]), self._tiers(parsed.get("tiers"))
            check_history(parsed["node"], history, tiers)
            return _answering(lambda: _tier_step(history, tiers))
        if name == "review":
            findings, reviewer = parsed.get("findings", []), given["reviewer"]
            check_review(parsed.get("node"), parsed["head"], parsed["verdict"], findings, reviewer)
            return _answering(lambda: _review(parsed, findings, reviewer))
        return None

    async def _answer_clock(self) -> NewCallRow:
        now = await self._clock()
        return completed({"now": now.astimezone(UTC).isoformat(), "seconds": now.timestamp()})

    def _tiers(self, asked: Sequence[str] | None) -> list[str]:
        tiers = list(asked or (role for role in DEFAULT_TIERS if role in self._roles))
        unknown = next((role for role in tiers if role not in self._roles), None)
        if unknown is not None or not tiers:
            missing = unknown or DEFAULT_TIERS[0]
            known = ", ".join(sorted(self._roles))
            raise FlowError(f"flow.crw.tier_step: there is no role {missing!r} in this run; use one of {known}")
        return tiers


def _answering(rule: Callable[[], NewCallRow]) -> Answer:
    async def answer() -> NewCallRow:
        return rule()

    return answer


def _classify(ended: Ended) -> NewCallRow:
    word = str(classify(ended))
    output = {"class": word, "status": str(ended.status), "reason": ended.reason, "code": code_of(ended)}
    return completed(output, {"reason": word})


def _tier_step(history: Sequence[Ended], tiers: Sequence[str]) -> NewCallRow:
    step = decide_step(history, tiers)
    return completed(step.to_json(), {"reason": str(step.step)})


def _review(parsed: Mapping[str, Any], findings: Sequence[Mapping[str, Any]], reviewer: Ended) -> NewCallRow:
    meta = reviewer.meta
    read = {"thread": meta.thread_id, "turn": meta.turn_id}
    output = {
        "verdict": parsed["verdict"], "node": parsed.get("node"), "head": parsed["head"],
        "criteria_digest": parsed["criteria"], "findings": findings, "reviewer": read,
    }  # fmt: skip
    # The call's name is another one in a fork: rows are renamed there, results are not.
    return completed(output, {"reason": parsed["verdict"], "reviewer": {"call": meta.call_id, **read}})
