"""What a review record holds, and what cannot be one. Pure.

A record says: this reviewer, in this turn, judged this head under these criteria. It is
the completed row of `flow.crw.review`; head and criteria digest are members of its input,
so that it stands for a head and criteria and for no other.
Source: journal document, "Other effects"; definition of checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.base.canonical import digest_json
from shared.base.errors import FlowError
from shared.model.outcome import Ended
from shared.model.roles import EXECUTOR_ROLES

VERIFIED, NEEDS_CHANGES = "verified", "needs_changes"
VERDICTS = (VERIFIED, NEEDS_CHANGES)
_TEXTS = ("text", "id", "severity", "path")
_FINDING = "is a list of findings, each an object with text, and if wanted id, severity, path and blocking"


def parse_verdict(value: Any) -> str:
    """One of the verdicts.

    Raises:
        ValueError: it is something else.
    """
    if value not in VERDICTS:
        raise ValueError(f"is one of {', '.join(VERDICTS)}, not {value!r}")
    return str(value)


def parse_criteria(value: Any) -> str:
    """The digest of what a head was held against: a text, or a list or object of JSON values.

    Raises:
        ValueError: it is something else, or empty.
    """
    fits = isinstance(value, (str, list, tuple, Mapping)) and bool(value.strip() if isinstance(value, str) else value)
    if not fits:
        raise ValueError("is a text, a list or an object that is not empty")
    try:
        return digest_json(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"is a JSON value, but {error}") from None


def parse_findings(value: Any) -> list[dict[str, Any]]:
    """What a reviewer found: objects of `text`, `id`, `severity`, `path` (texts) and `blocking`.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, (list, tuple)):
        raise ValueError(_FINDING)
    return [_finding(one) for one in value]


def _finding(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or value.keys() - {*_TEXTS, "blocking"}:
        raise ValueError(_FINDING)
    given = {name: member for name, member in value.items() if member is not None}
    texts = [given[name] for name in _TEXTS if name in given]
    if "text" not in given or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"{_FINDING}; these are texts that are not empty")
    if not isinstance(given.get("blocking", False), bool):
        raise ValueError(f"{_FINDING}; blocking is True or False")
    return given


def check_review(node: str | None, head: str, verdict: str, findings: list[dict[str, Any]], reviewer: Ended) -> None:
    """Refuse a record that its own parts speak against.

    Raises:
        FlowError: one sentence.
    """
    meta, what = reviewer.meta, "flow.crw.review: reviewer is the result of"
    if meta.kind != "agent":
        raise FlowError(f"{what} flow.crw.{meta.kind}; it takes that of flow.agent")
    if meta.role in EXECUTOR_ROLES:
        raise FlowError(f"{what} a call of role {meta.role}, which writes; a reviewer only reads")
    if not reviewer.ok:
        why = f" ({reviewer.reason})" if reviewer.reason else ""
        raise FlowError(f"{what} a call that ended {reviewer.status}{why}; it judged nothing")
    if meta.node_id not in (None, node):
        raise FlowError(f"{what} a call on node {meta.node_id}, not on {f'node {node}' if node else 'no node'}")
    if meta.head not in (None, head):
        raise FlowError(f"{what} a call that read {meta.head}, not {head}; give it head=")
    if verdict == VERIFIED and any(finding.get("blocking") for finding in findings):
        raise FlowError("flow.crw.review: a finding is blocking, so the verdict is not verified")
