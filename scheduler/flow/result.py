"""What a script sees: the end of a call as a value, and the errors it may raise or catch.

Source: design of the farm, "The flow script"; journal document, "The replayed CallResult".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from scheduler.flow.digest import chain_conversation
from scheduler.flow.nodes import Hold
from shared.base.errors import CrwError, FlowError
from shared.model.outcome import Ended, Meta, Status

_CAUSE_CHARACTERS = 300


class Failed(CrwError):
    """Raised by a script that gives up: `raise flow.Failed("still failing after three rounds")`."""

    reason = "failed"


class CallFailed(CrwError):
    """A script required the output of a call that did not complete. `result` is the call's result."""

    reason = "call_failed"

    def __init__(self, sentence: str, result: CallResult) -> None:
        super().__init__(sentence, status=str(result.status), call_reason=result.reason)
        self.result = result


class JoinFailed(CrwError):
    """Items of a join raised. `errors` has them by key, `results` what the others returned."""

    reason = "join_failed"

    def __init__(self, sentence: str, errors: Mapping[Any, BaseException], results: Mapping[Any, Any]) -> None:
        super().__init__(sentence)
        self.errors = dict(errors)
        self.results = dict(results)


Continue = Callable[..., Awaitable["CallResult"]]


class CallResult:
    """The end of a call.

    Shape: `status` (completed, null_model, refused, held, outcome_unknown,
    superseded), `ok`, `output` (None unless completed), `reason`, `meta`.
    `result["key"]` reads the output of a completed call.
    """

    __slots__ = ("_before", "_continue", "_conversation", "_ended")

    def __init__(self, ended: Ended, before: str | None, go_on: Continue | None) -> None:
        self._ended = ended
        self._continue = go_on
        self._before = before
        self._conversation: str | None = None

    @property
    def status(self) -> Status:
        """How the call ended."""
        return self._ended.status

    @property
    def ok(self) -> bool:
        """Whether it completed."""
        return self._ended.ok

    @property
    def output(self) -> Any:
        """The answer; None unless the call completed."""
        return self._ended.output

    @property
    def reason(self) -> str | None:
        """Why it did not complete; of an op that decides something, the word it came to."""
        return self._ended.reason

    @property
    def meta(self) -> Meta:
        """Role, pair, thread, turns, tokens, rows and host of the call."""
        return self._ended.meta

    @property
    def conversation(self) -> str:
        """The digest of the conversation up to this call's last turn."""
        if self._conversation is None:
            self._conversation = chain_conversation(self._before, self._ended.meta.turn_id, self._ended.result_digest)
        return self._conversation

    @property
    def hold(self) -> Hold | None:
        """Why its conversation may not go on yet, if so."""
        return Hold.of(self._ended)

    def require(self) -> Any:
        """The output.

        Raises:
            CallFailed: the call did not complete.
        """
        if not self.ok:
            why = f" ({self.reason})" if self.reason else ""
            cause = _first_line(self._ended.facts.get("error"))
            raise CallFailed(f"the call {self._described()} ended {self.status}{why}{cause}", self)
        return self.output

    def __getitem__(self, key: Any) -> Any:
        output = self.require()
        if isinstance(output, str):
            raise FlowError(f"the call {self._described()} has no schema: its output is a text, read .output")
        return output[key]

    async def call(self, prompt: str, **options: Any) -> CallResult:
        """The next call of the same conversation: same thread, role and node.

        Args:
            options: schema, label, deadline, head, as `flow.agent` takes them.

        Raises:
            FlowError: the call has no thread to go on in, or an option cannot be used.
        """
        if self._continue is None:
            raise CallFailed(f"{self._described()} is no agent's call: there is no conversation to continue", self)
        return await self._continue(self, prompt, **options)

    def _described(self) -> str:
        meta = self.meta
        words = [f"of role {meta.role}" if meta.role else f"flow.crw.{meta.kind}"]
        return " ".join([*words, *([f"on node {meta.node_id}"] if meta.node_id else [])])

    def __repr__(self) -> str:
        return f"<CallResult {self.status} {self._described()}>"

    def fingerprint(self) -> list[Any]:
        """What of the result enters the digest of a join."""
        return [str(self.status), self.reason, self._ended.result_digest]


def _first_line(error: Any) -> str:
    """What is recorded of a cause, as the end of a sentence: a replay raises with the same words."""
    text = str(error or "").strip().partition("\n")[0]
    return f": {text[:_CAUSE_CHARACTERS]}" if text else ""


def as_data(value: Any) -> Any:
    """A script's value as JSON data: a call result, alone or nested, stands as its output.

    Raises:
        FlowError: it is nested too deeply to be looked through.
    """
    return _data(value, lambda result: result.output)


def as_evidence(value: Any) -> Any:
    """A script's value as a join's digest covers it. Raises FlowError as `as_data` does."""
    return _data(value, lambda result: {"call": result.fingerprint()})


def as_ended(value: Any) -> Any:
    """An argument of an op: a call result, alone or in a list, stands as the end of its call.

    Raises:
        FlowError: it is nested too deeply to be looked through.
    """
    try:
        return _ended(value)
    except RecursionError:
        raise FlowError("an argument is nested too deeply for JSON, or holds itself; give it flatter") from None


def _ended(value: Any) -> Any:
    if isinstance(value, CallResult):
        return value._ended
    return [_ended(one) for one in value] if isinstance(value, (list, tuple)) else value


def _data(value: Any, of_result: Callable[[CallResult], Any]) -> Any:
    try:
        return _replace(value, of_result)
    except RecursionError:
        raise FlowError("what was returned is nested too deeply for JSON, or holds itself; return it flatter") from None


def _replace(value: Any, of_result: Callable[[CallResult], Any]) -> Any:
    if isinstance(value, CallResult):
        return of_result(value)
    if isinstance(value, Mapping):
        texts = {_key(key): _replace(member, of_result) for key, member in value.items()}
        if len(texts) == len(value):
            return texts
        return {key: _replace(member, of_result) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace(member, of_result) for member in value]
    return value


def _key(key: Any) -> Any:
    """A key as JSON has it: `flow.parallel` takes numbers as keys, and its results may be returned as they are."""
    return str(key) if isinstance(key, int) and not isinstance(key, bool) else key
