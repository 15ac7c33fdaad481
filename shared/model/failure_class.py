"""What kind of thing stood in a call's way. Pure: decided by words that rows keep, never by a message's text.

What a script does next differs by the class and by nothing finer: say the task better, ask
another model, try again later or elsewhere, wait for the account, or ask a person.
Source: definition of roles, tiers, steps and budgets; facts of the App Server, "Failed turns".
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from shared.base.errors import BudgetSpent, FlowError
from shared.model.outcome import CANCELLED, PAIR_REFUSED, REPOSITORY_CHANGED, RESULT_NOT_STORABLE, Ended, Status

# The server's codes (codexErrorInfo) of a failed turn.
QUOTA_CODES = frozenset({"usageLimitExceeded", "sessionBudgetExceeded"})
OVERLOADED_CODES = frozenset({"serverOverloaded", "rateLimitExceeded", "internalServerError", "flexUnavailable"})
POLICY_CODES = frozenset({"cyberPolicy", "misalignmentPolicyViolation", "tooManyDenials"})
CONTEXT_CODE = "contextWindowExceeded"


class FailureClass(StrEnum):
    """The classes.

    Shape:
        task: the call did its work; what is wrong, if anything, is what it was asked or what it found.
        model: the model gave no usable answer, or can take no more of the conversation.
        infra: a host, the hub or a connection failed, or nobody knows what came of the call.
        quota: the account or the run's budget is used up.
        policy: a rule or a limit that somebody set stopped it; the same again is stopped again.
    """

    TASK = "task"
    MODEL = "model"
    INFRA = "infra"
    QUOTA = "quota"
    POLICY = "policy"


_BY_CODE = {
    **dict.fromkeys(QUOTA_CODES, FailureClass.QUOTA),
    **dict.fromkeys(OVERLOADED_CODES, FailureClass.INFRA),
    **dict.fromkeys(POLICY_CODES, FailureClass.POLICY),
    CONTEXT_CODE: FailureClass.MODEL,
}
_BY_REASON = {
    "quota": FailureClass.QUOTA,
    BudgetSpent.reason: FailureClass.QUOTA,
    "host_infra_context": FailureClass.MODEL,
    RESULT_NOT_STORABLE: FailureClass.MODEL,
    # The op was asked for what is not there.
    FlowError.reason: FailureClass.TASK,
    **dict.fromkeys(
        ("host_infra_policy", PAIR_REFUSED, REPOSITORY_CHANGED, CANCELLED, "paused", "deadline", "idle"),
        FailureClass.POLICY,
    ),
}
_BY_STATUS = {
    Status.COMPLETED: FailureClass.TASK,
    Status.NULL_MODEL: FailureClass.MODEL,
    Status.OUTCOME_UNKNOWN: FailureClass.INFRA,
    Status.SUPERSEDED: FailureClass.INFRA,
    Status.WITHDRAWN: FailureClass.POLICY,
}
_OF_REFUSED, _OF_HELD = FailureClass.POLICY, FailureClass.INFRA
# The reason of a call that met a node which held: what held it, in brackets.
_MET = re.compile(r"node_held \((?P<status>\w+)(?:: (?P<reason>.*))?\)")


def classify(ended: Ended) -> FailureClass:
    """The class of a call's end, from its status, its reason and the server's code, if it tells of one."""
    if ended.status is Status.COMPLETED and _could_not_run(ended):
        return FailureClass.INFRA
    return _class_of(ended.status, ended.reason, code_of(ended))


def code_of(ended: Ended) -> str | None:
    """The server's code for the failure of the call's last turn; None where it told none."""
    code = ended.facts.get("info")
    return code if isinstance(code, str) else None


def _class_of(status: Status, reason: str | None, code: str | None) -> FailureClass:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    met = _MET.fullmatch(reason or "")
    if met is not None and met["status"] in (Status.HELD, Status.OUTCOME_UNKNOWN):
        return _class_of(Status(met["status"]), met["reason"], code)
    by_words = _BY_CODE.get(code or "") or _BY_REASON.get(reason or "")
    return by_words or (_OF_REFUSED if status is Status.REFUSED else _OF_HELD)


def _could_not_run(ended: Ended) -> bool:
    """Whether an op completed without coming to its own question: no such command, a hub that takes no push."""
    said: Any = ended.output
    if not isinstance(said, dict):
        return False
    if ended.meta.kind == "verify":
        return said.get("ran") is False
    return ended.meta.kind == "integrate" and said.get("merged") is False and not said.get("conflicts")
