"""Whether a node goes on with the role it has, with the next one, or not at all. Pure.

Tiers are roles, the first one that is tried first. What counts is what happened on the
tier that the node's last agent call had: a new role begins with a clean slate.
Source: definition of roles, tiers, steps and budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from shared.base.errors import FlowError
from shared.model.outcome import Ended, Status

DEFAULT_TIERS = ("executor", "executor-t1")
NULL_MODELS = 2
FAILED_CHECKS = 3
# The ops whose results say whether the work is good.
CHECKS = ("verify", "review")


class StepWord(StrEnum):
    """What to do."""

    STAY = "stay"
    STEP = "step"
    GIVE_UP = "give_up"


@dataclass(frozen=True)
class Step:
    """A decision.

    Shape: `tier` the role of the node's next call, None when it is given up; `reason` one sentence;
    `null_models` and `failed_checks` what was counted on the tier that the node has.
    """

    step: StepWord
    tier: str | None
    reason: str
    null_models: int
    failed_checks: int

    def to_json(self) -> dict[str, Any]:
        """What the script gets."""
        return asdict(self)


def check_history(node: str, history: Sequence[Ended], tiers: Sequence[str]) -> None:
    """Refuse a history that does not tell of this node on these tiers.

    Raises:
        FlowError: one sentence that names the result at fault.
    """
    for number, ended in enumerate(history):
        meta = ended.meta
        what = f"flow.crw.tier_step: history[{number}] is the result of"
        if meta.kind != "agent" and meta.kind not in CHECKS:
            raise FlowError(f"{what} flow.crw.{meta.kind}; it takes those of flow.agent and flow.crw.{_any_check()}")
        if meta.kind == "agent" and meta.role not in tiers:
            raise FlowError(f"{what} a call of role {meta.role}, which is none of the tiers {', '.join(tiers)}")
        if meta.node_id not in (None, node):
            raise FlowError(f"{what} a call on node {meta.node_id}, not on node {node}")


def decide_step(history: Sequence[Ended], tiers: Sequence[str]) -> Step:
    """The decision on a history that `check_history` took; the order of the calls is its order.

    Calls that were held, refused or whose outcome is unknown count for nothing: another role would meet the same.
    """
    tier, null_models, failed_checks = tiers[0], 0, 0
    for ended in history:
        if ended.meta.kind == "agent" and ended.meta.role != tier:
            tier, null_models, failed_checks = str(ended.meta.role), 0, 0
        null_models += ended.status is Status.NULL_MODEL
        failed_checks += _failed_check(ended)
    counted = _counted(null_models, failed_checks)
    if null_models < NULL_MODELS and failed_checks < FAILED_CHECKS:
        return Step(StepWord.STAY, tier, f"{tier} goes on after {counted}", null_models, failed_checks)
    above = tiers[tiers.index(tier) + 1 :]
    if not above:
        reason = f"{tier} is the last tier, and it has {counted}"
        return Step(StepWord.GIVE_UP, None, reason, null_models, failed_checks)
    return Step(StepWord.STEP, above[0], f"{above[0]} follows {tier} after {counted}", null_models, failed_checks)


def _failed_check(ended: Ended) -> bool:
    said = ended.output
    if ended.meta.kind not in CHECKS or not isinstance(said, dict):
        return False
    if ended.meta.kind == "review":
        return said.get("verdict") == "needs_changes"
    # One that could not run says nothing of the work.
    return said.get("passed") is False and said.get("ran") is not False


def _counted(null_models: int, failed_checks: int) -> str:
    calls = f"{null_models} call{'' if null_models == 1 else 's'} without an answer"
    return f"{calls} and {failed_checks} failed check{'' if failed_checks == 1 else 's'}"


def _any_check() -> str:
    return " and flow.crw.".join(CHECKS)
