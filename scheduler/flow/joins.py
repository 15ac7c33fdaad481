"""Joins: items side by side, each on a path of its own that its key names.

A join takes a position. All its items run to their end, also when one of them
raises; then the digest of their results, ordered by key, is written and enters the
input of every later position of the path. In which order items finish or are
listed is no identity.
Source: journal document, "The resume walk" (b), (f) and the paragraph on joins.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from scheduler.flow.digest import join_digest
from scheduler.flow.opening import Positions
from scheduler.flow.path import Path, Place, current_path, enter_path
from scheduler.flow.result import JoinFailed, as_evidence
from scheduler.resume.decisions import Mismatch
from shared.base.errors import FlowError
from shared.model.position import child_path
from shared.model.rows import NewEventRow

_NAMED_FAILURES = 5


async def run_join(positions: Positions, what: str, items: Mapping[str, Awaitable[Any]]) -> dict[str, Any]:
    """Run items to their end and settle the join; the results by key, in the order given.

    Raises:
        JoinFailed: items raised; the others have run to their end.
        FlowError: an item returned something that is no JSON data.
        Stopped: the run is being stopped.
    """
    tasks: dict[str, asyncio.Task[Any]] = {}
    settled = None
    try:
        positions.halt.check()
        path = current_path()
        place = path.enter(what)
    except BaseException:
        _close(items.values())
        raise
    try:
        found = await positions.deciding.begin_join(path, place, what)
        if found is not None:
            positions.mismatch(found)
        for key, item in items.items():
            child = Path(child_path(*place, key), path.joins, path)
            tasks[key] = asyncio.create_task(_run_item(child, item), name=child.name)
        await _all_ended(tasks.values())
        positions.halt.check()
        errors = {key: error for key, task in tasks.items() if (error := task.exception()) is not None}
        # No failure of an item: its path came to a stand, and so does this one.
        for stand in (error for error in errors.values() if not isinstance(error, Exception)):
            raise stand
        results = {key: task.result() for key, task in tasks.items() if key not in errors}
        settled = await _settle(positions, path, place, what, results, errors)
    finally:
        _close(item for key, item in items.items() if key not in tasks)
        path.leave(settled)
    if errors:
        raise JoinFailed(_sentence(what, place, errors), errors, results) from next(iter(errors.values()))
    return results


async def _run_item(path: Path, item: Awaitable[Any]) -> Any:
    enter_path(path)
    return await without_exit(item)


async def without_exit(item: Awaitable[Any]) -> Any:
    """Await a script's coroutine; what would end the whole process from a task must not end the scheduler.

    Raises:
        FlowError: the script tried to.
    """
    try:
        return await item
    except SystemExit as error:
        raise FlowError(f"the script called sys.exit({error.code}); return from main or raise flow.Failed") from error
    except KeyboardInterrupt as error:
        raise FlowError("the script raised KeyboardInterrupt; raise flow.Failed instead") from error


async def _all_ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    waiting = list(tasks)
    if not waiting:
        return
    try:
        await asyncio.wait(waiting)
    except asyncio.CancelledError:
        # The run is stopped from outside: the whole tree goes, and nothing is left behind.
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        raise


async def _settle(
    positions: Positions,
    path: Path,
    place: Place,
    what: str,
    results: Mapping[str, Any],
    errors: Mapping[str, BaseException],
) -> str:
    evidence = {key: [True, as_evidence(result)] for key, result in results.items()}
    evidence |= {key: [False, type(error).__name__, str(error)] for key, error in errors.items()}
    try:
        digest = join_digest(evidence)
    except (TypeError, ValueError):
        raise _no_data(what, evidence) from None
    replays = await positions.deciding.settle_join(path, place, digest)
    if isinstance(replays, Mismatch):
        positions.mismatch(replays)
    if not replays:
        data = {"digest": digest, "items": len(evidence), "failed": sorted(errors)}
        positions.acts.note(NewEventRow("join_settled", data, *place, op=what.removeprefix("flow.")))
    return digest


def _no_data(what: str, evidence: Mapping[str, Any]) -> FlowError:
    """Which item it was; asked only when the digest of them all could not be taken."""
    for key, item in evidence.items():
        try:
            join_digest({key: item})
        except (TypeError, ValueError) as error:
            return FlowError(
                f"item {key} of {what} returned what is no JSON data ({error}); return JSON data or a call's result",
                item=key,
            )
    return FlowError(f"the items of {what} returned what is no JSON data")


def _sentence(what: str, place: Place, errors: Mapping[str, BaseException]) -> str:
    named = [f"{key}: {type(error).__name__}: {error}" for key, error in list(errors.items())[:_NAMED_FAILURES]]
    more = f" and {len(errors) - _NAMED_FAILURES} more" if len(errors) > _NAMED_FAILURES else ""
    items = "item" if len(errors) == 1 else "items"
    return f"{what} at {place[0]}:{place[1]}: {len(errors)} {items} failed ({'; '.join(named)}{more})"


def _close(items: Iterable[Awaitable[Any]]) -> None:
    # Coroutines that will not run must say so, or Python warns of each.
    for item in items:
        if inspect.iscoroutine(item):
            item.close()


# -- what a script gives, as keyed items -----------------------------------------------------------

Stage = Callable[[Any], Awaitable[Any]]


def keyed(what: str, items: Any) -> tuple[dict[str, Awaitable[Any]], list[Any]]:
    """`flow.parallel`'s items by key, and the keys as the script wrote them.

    Raises:
        FlowError: no mapping or list, an item that cannot be awaited, or two equal keys.
    """
    if isinstance(items, Mapping):
        pairs = list(items.items())
    elif isinstance(items, Sequence) and not isinstance(items, (str, bytes)):
        pairs = list(enumerate(items))
    else:
        raise FlowError(f"{what} takes an object of key to coroutine, not a {type(items).__name__}")
    keys = key_texts(what, [key for key, _ in pairs])
    awaitables = [item for _, item in pairs]
    for text, item in zip(keys, awaitables, strict=True):
        if not inspect.isawaitable(item):
            _close(other for other in awaitables if inspect.iscoroutine(other))
            raise FlowError(f"{what}: item {text} is a {type(item).__name__}, not a coroutine; call it: lane(node)")
    return dict(zip(keys, awaitables, strict=True)), [key for key, _ in pairs]


def key_texts(what: str, keys: Sequence[Any]) -> list[str]:
    """Keys as texts that name paths.

    Raises:
        FlowError: one is neither text nor number, is empty, or stands there twice.
    """
    texts: list[str] = []
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
            raise FlowError(f"{what}: an item's key is a text or a number, not {key!r}")
        if isinstance(key, str) and any("\ud800" <= character <= "\udfff" for character in key):
            raise FlowError(
                f"{what}: the item's key {key!r} has half a character in it (a lone surrogate); give it another"
            )
        texts.append(str(key))
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise FlowError(f"{what}: two items have the key {twice!r}; a key names one item")
    return texts


async def run_stages(item: Any, stages: Sequence[Stage]) -> Any:
    """One item through all stages, each given what the one before returned."""
    value = item
    for stage in stages:
        value = await stage(value)
    return value
