"""`flow`: everything a script may call, and the checks on what it asks.

A script sees this object, never the engine behind it. What it asks wrongly raises
FlowError at its own line before anything is written.
Source: design of the farm, "The flow script"; decisions, "Scripts and ops".
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.flow.asking import Asking
from scheduler.flow.engine_ops import EngineOps, completed
from scheduler.flow.joins import Stage, key_texts, keyed, run_join, run_stages
from scheduler.flow.opening import Ask, Positions
from scheduler.flow.path import current_path
from scheduler.flow.result import CallFailed, CallResult, Failed, JoinFailed, as_ended
from scheduler.flow.script import Script
from shared.base.errors import FlowError
from shared.model.ops import by_name, op_shape, parse_arguments
from shared.model.outcome import Ended
from shared.model.rows import NewCallRow, NewEventRow
from shared.model.spec import RunSpec

_LOG_LIMIT_CHARACTERS = 20_000
_LONGEST_SLEEP_SECONDS = 366 * 86400.0


class Flow:
    """The flow as its script sees it."""

    Failed = Failed
    CallFailed = CallFailed
    JoinFailed = JoinFailed
    FlowError = FlowError

    def __init__(
        self, spec: RunSpec, script: Script, positions: Positions, clock: Callable[[], Awaitable[datetime]]
    ) -> None:
        self._positions = positions
        self._script = script
        self._asking = Asking(spec)
        self._engine_ops = EngineOps(spec.roles, clock)
        self._clock = clock
        self.run_id = positions.run_id
        self.args = spec.args
        self.crw = _Ops(self._op)

    async def agent(
        self,
        prompt: str,
        *,
        role: str,
        schema: dict[str, Any] | None = None,
        node: str | None = None,
        head: str | None = None,
        model: str | None = None,
        effort: str | None = None,
        label: str | None = None,
        deadline: float | None = None,
    ) -> CallResult:
        """One call of an agent on a fresh thread.

        Args:
            role: one of the run's roles; it gives model, effort, sandbox and instructions.
            schema: the form of the answer.
            node: whose worktree an executor works in.
            head: the commit another role reads.
            model, effort: instead of the role's own.
            label: a word for people; it shows in Flower.
            deadline: seconds from the moment a worker has the call.

        Raises:
            FlowError: one of them cannot be used.
        """
        ask = self._asking.agent(
            prompt, role=role, schema=schema, node=node, head=head, model=model, effort=effort, label=label,
            deadline=deadline,
        )  # fmt: skip
        return CallResult(await self._positions.open(ask), None, self._continue)

    async def _continue(self, result: CallResult, prompt: str, **options: Any) -> CallResult:
        ask = self._asking.next_call(result, prompt, **options)
        return CallResult(await self._positions.open(ask), result.conversation, self._continue)

    async def _op(self, name: str, arguments: dict[str, Any]) -> CallResult:
        shape = op_shape(name)
        given = {key: as_ended(value) for key, value in arguments.items()}
        parsed = parse_arguments(name, given)
        ask = self._asking.op(shape, parsed, self._engine_ops.answer(name, given, parsed))
        return CallResult(await self._positions.open(ask), None, None)

    async def clock(self) -> datetime:
        """The database's time, recorded: a replay gets the same."""
        result = await self._op("clock", {})
        return datetime.fromisoformat(result["now"])

    async def sleep(self, seconds: float) -> None:
        """Wait, also across restarts of the scheduler: the time it is due is recorded.

        Raises:
            FlowError: no number of seconds from 0 to a year.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise FlowError(f"flow.sleep takes seconds, not a {type(seconds).__name__}")
        if not 0 <= seconds <= _LONGEST_SLEEP_SECONDS:
            raise FlowError(f"flow.sleep takes 0 to {_LONGEST_SLEEP_SECONDS:.0f} seconds, not {seconds}")

        async def answer() -> NewCallRow:
            due = await self._clock() + timedelta(seconds=seconds)
            return completed({"until": due.astimezone(UTC).isoformat()})

        asks = {"op": "sleep", "arguments": {"seconds": seconds}, "node": None}
        await self._positions.open(Ask("sleep", "op", asks, {}, "flow.sleep", answer=answer), self._wait_until_due)

    async def _wait_until_due(self, ended: Ended) -> None:
        left = datetime.fromisoformat(ended.output["until"]) - await self._clock()
        await asyncio.sleep(max(0.0, left.total_seconds()))

    async def parallel(self, items: Any) -> Any:
        """Run coroutines side by side: `await flow.parallel({key: lane(item), ...})`.

        Returns:
            The results by key; a list for a list, whose items are known by their index.

        Raises:
            JoinFailed: items raised; the others have run to their end.
        """
        by_key, keys = keyed("flow.parallel", items)
        results = await run_join(self._positions, "flow.parallel", by_key)
        values = list(results.values())
        return values if isinstance(items, (list, tuple)) else dict(zip(keys, values, strict=True))

    async def pipeline(self, items: Iterable[Any], *stages: Stage, key: Callable[[Any], Any] | None = None) -> Any:
        """Run each item through all stages by itself: no item waits for another between stages.

        Args:
            stages: async functions; each gets what the one before returned, the first the item.
            key: names an item; without it items are known by their index.

        Returns:
            The results by key, or a list without `key`.
        """
        listed = list(items)
        names = [key(item) for item in listed] if key else list(range(len(listed)))
        texts = key_texts("flow.pipeline", names)
        lanes = {text: run_stages(item, stages) for text, item in zip(texts, listed, strict=True)}
        results = await run_join(self._positions, "flow.pipeline", lanes)
        return dict(zip(names, results.values(), strict=True)) if key else list(results.values())

    async def workflow(self, script: Any, args: Any = None) -> Any:
        """Run another script of the run on a path of its own and return what its main returns.

        Args:
            script: its file name, or an async function that takes `flow` and `args`.

        Raises:
            FlowError: no such script ships with the run.
        """
        main = script if callable(script) else self._script.main_of(script)
        key = script if isinstance(script, str) else getattr(script, "__name__", "workflow")
        item = main(self, args)
        if not inspect.isawaitable(item):
            raise FlowError("flow.workflow takes the file name of a script, or an async function of flow and args")
        try:
            results = await run_join(self._positions, "flow.workflow", {key: item})
        except JoinFailed as failed:
            raise failed.errors[key] from None
        return results[key]

    def phase(self, name: str) -> None:
        """Say which phase the flow is in."""
        self._note("phase", {"name": str(name)})

    def log(self, message: Any) -> None:
        """Say something to who watches."""
        text = message if isinstance(message, str) else json.dumps(message, default=str, ensure_ascii=False)
        self._note("log", {"message": text[:_LOG_LIMIT_CHARACTERS]})

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        self._positions.halt.check()
        path = current_path()
        if not self._positions.history.take_note(kind, (path.name, path.position)):
            self._positions.acts.note(NewEventRow(kind, data, path.name, path.position))

    def file(self, name: str) -> bytes:
        """A file that the script declares in its list `files`.

        Raises:
            FlowError: it is not declared.
        """
        return self._script.file(name)


class _Ops:
    """`flow.crw.<op>(...)`."""

    def __init__(self, run: Callable[[str, dict[str, Any]], Awaitable[CallResult]]) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Callable[..., Awaitable[CallResult]]:
        if name.startswith("__"):
            raise AttributeError(name)
        op_shape(name)

        def op(*given: Any, **arguments: Any) -> Awaitable[CallResult]:
            return self._run(name, by_name(name, given, arguments))

        # Found here from now on.
        self.__dict__[name] = op
        return op
