"""Turn what a script asks into what a position records, refusing what cannot be used.

Everything here is checked against the run's own record, fixed at submit, so that
every process that replays the script comes to the same answer.
Source: decisions, "Scripts and ops"; journal document, "The resume walk" (c).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from scheduler.flow.nodes import Hold
from scheduler.flow.opening import Ask
from scheduler.flow.result import CallResult
from shared.base.canonical import digest_json, digest_text
from shared.base.errors import FlowError
from shared.base.ids import parse_node_id
from shared.base.kinds import LONGEST_SECONDS
from shared.model.op_arguments import parse_commit
from shared.model.ops import OpShape
from shared.model.roles import EFFORTS, Role
from shared.model.rows import NewCallRow
from shared.model.schema import check_schema
from shared.model.spec import RunSpec

_LABEL_LIMIT_CHARACTERS = 200
_PROMPT_LIMIT_CHARACTERS = 4_000_000


class Asking:
    """The checks of one run."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._models = tuple(spec.extra.get("models", ()))
        self._good_schemas: set[str] = set()

    def agent(
        self,
        prompt: str,
        *,
        role: str,
        schema: Any,
        node: str | None,
        head: str | None,
        model: str | None,
        effort: str | None,
        label: str | None,
        deadline: float | None,
    ) -> Ask:
        """A call that starts a thread.

        Raises:
            FlowError: a member cannot be used.
        """
        chosen = self._role(role)
        return self._call(
            chosen, prompt, schema=schema, node=self._node(chosen, node), head=_head(chosen, head),
            pair=self._pair(chosen, model, effort), label=label, deadline=deadline, context={"kind": "fresh"},
        )  # fmt: skip

    def next_call(
        self,
        result: CallResult,
        prompt: str,
        *,
        schema: Any = None,
        label: str | None = None,
        head: str | None = None,
        deadline: float | None = None,
    ) -> Ask:
        """A call that continues the thread of `result`, in its role, pair and node.

        Raises:
            FlowError: a member cannot be used, or there is no thread to go on in.
        """
        meta = result.meta
        hold = result.hold
        if hold is None and meta.thread_id is None:
            raise FlowError(
                f"the call to continue ended {result.status} ({result.reason}) before it had a thread; "
                "look at result.ok, or start afresh with flow.agent"
            )
        role = self._role(meta.role)
        context = {
            "kind": "continue", "call": meta.call_id, "thread": meta.thread_id, "through_turn": meta.turn_id,
            "chain": result.conversation,
        }  # fmt: skip
        return self._call(
            role, prompt, schema=schema, node=meta.node_id, head=_head(role, head),
            pair=list(meta.requested or (role.model, role.effort)), label=label, deadline=deadline, context=context,
            host=meta.host, hold=hold,
        )  # fmt: skip

    def op(self, shape: OpShape, arguments: dict[str, Any], answer: Callable[[], Awaitable[NewCallRow]] | None) -> Ask:
        """An op with arguments that were parsed."""
        node = arguments.get("node")
        members = {shape.members[name]: value for name, value in arguments.items() if name in shape.members}
        others = {name: value for name, value in arguments.items() if name not in shape.members}
        return Ask(
            kind=shape.name,
            effect="op",
            asks={"op": shape.name, "arguments": others, "node": node, **members},
            detail={},
            what=f"flow.crw.{shape.name}",
            node=node if isinstance(node, str) else None,
            writes=shape.writes_node,
            head=members.get("head"),
            deadline_seconds=self._spec.call_deadline_seconds,
            answer=answer,
        )

    def _call(
        self,
        role: Role,
        prompt: str,
        *,
        schema: Any,
        node: str | None,
        head: str | None,
        pair: list[str],
        label: str | None,
        deadline: float | None,
        context: dict[str, Any],
        host: str | None = None,
        hold: Hold | None = None,
    ) -> Ask:
        prompt_digest = digest_text(_prompt(prompt))
        options = {"deadline": _deadline(deadline)}
        asks = {
            "prompt_digest": prompt_digest, "schema": self._schema(schema), "role": role.name, "pair": pair,
            "node": node, "head": head, "options": options, "context": context,
        }  # fmt: skip
        # The host is where the thread happens to be: it pins the call, but it is no part of the input.
        recorded = {"prompt": prompt, "label": _label(label), "context": {**context, "host": host} if host else context}
        return Ask(
            kind="agent",
            effect="executor" if role.writes else "reader",
            asks=asks,
            detail=recorded,
            what=f"flow.agent of role {role.name}",
            node=node,
            writes=role.writes,
            continues=context.get("thread"),
            hold=hold,
            role=role.name,
            label=_label(label),
            head=head,
            pin_host=host,
            deadline_seconds=options["deadline"] or self._spec.call_deadline_seconds,
        )

    def _role(self, name: Any) -> Role:
        role = self._spec.roles.get(name) if isinstance(name, str) else None
        if role is None:
            raise FlowError(f"there is no role {name!r} in this run; use one of {', '.join(sorted(self._spec.roles))}")
        return role

    def _pair(self, role: Role, model: Any, effort: Any) -> list[str]:
        if model is not None and (not isinstance(model, str) or (self._models and model not in self._models)):
            known = f"; use one of {', '.join(self._models)}" if self._models else ""
            raise FlowError(f"there is no model {model!r}{known}")
        if effort is not None and effort not in EFFORTS:
            raise FlowError(f"there is no effort {effort!r}; use one of {', '.join(EFFORTS)}")
        return [model or role.model, effort or role.effort]

    def _node(self, role: Role, node: Any) -> str | None:
        if node is None:
            if role.writes:
                raise FlowError(f"role {role.name} works in a node's worktree; give it node=")
            return None
        return parse_node_id(node)

    def _schema(self, schema: Any) -> Any:
        if schema is None:
            return None
        try:
            digest = digest_json(schema)
        except (TypeError, ValueError) as error:
            raise FlowError(f"the schema is no JSON value: {error}") from None
        if digest not in self._good_schemas:
            check_schema(schema)
            self._good_schemas.add(digest)
        return schema


def _prompt(prompt: Any) -> str:
    if not isinstance(prompt, str) or not prompt.strip():
        raise FlowError(f"a prompt is a text that is not empty, not {type(prompt).__name__} {str(prompt)[:40]!r}")
    if len(prompt) > _PROMPT_LIMIT_CHARACTERS:
        raise FlowError(f"the prompt has {len(prompt)} characters, more than {_PROMPT_LIMIT_CHARACTERS}")
    return prompt


def _head(role: Role, head: Any) -> str | None:
    if head is None:
        return None
    if role.writes:
        raise FlowError(f"role {role.name} works at its node's own state; head= is for roles that read")
    try:
        return parse_commit(head)
    except ValueError as error:
        raise FlowError(f"head {error}") from None


def _label(label: Any) -> str | None:
    if label is None:
        return None
    if not isinstance(label, str) or not label or len(label) > _LABEL_LIMIT_CHARACTERS:
        raise FlowError(f"a label is a text of at most {_LABEL_LIMIT_CHARACTERS} characters")
    return label


def _deadline(deadline: Any) -> float | None:
    if deadline is None:
        return None
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not 0 < deadline <= LONGEST_SECONDS:
        raise FlowError(f"a deadline is a number of seconds above 0 and of at most a century, not {deadline!r}")
    return float(deadline)
