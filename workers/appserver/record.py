"""What is known of one turn, folded from its events as they arrive. No I/O, no locks.

Shape of an item: the protocol's own dict, with command output cut to its two ends.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.appserver.limits import TurnError, Usage, UsageMeter, read_turn_error

Item = dict[str, Any]
OUTPUT_KEPT_CHARACTERS = 8192


@dataclass(frozen=True)
class TurnEnd:
    """How a turn ended.

    Shape: `status` is `completed`, `interrupted` or `failed`; `items` all items that
    completed, in order; `usage` None when the server reported none; `error` set for `failed`;
    `rerouted_to` the model that answered instead of the turn's own, if the provider changed it.
    """

    thread_id: str
    turn_id: str
    status: str
    items: tuple[Item, ...]
    usage: Usage | None
    error: TurnError | None
    seconds: float | None
    rerouted_to: str | None = None


@dataclass(frozen=True)
class Progress:
    """What a running turn is doing, for people who watch."""

    message: str | None
    command: str | None
    tokens: int | None
    seconds: float


def shorten(text: str, kept: int = OUTPUT_KEPT_CHARACTERS) -> str:
    """A long text's beginning and end with a line between that says how much is missing."""
    if len(text) <= kept:
        return text
    half = kept // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


class TurnRecord:
    """One turn of one thread."""

    def __init__(self, thread_id: str, turn_id: str) -> None:
        self.thread_id = thread_id
        self.turn_id = turn_id
        self.started = False
        self.end: TurnEnd | None = None
        self._seen_at = time.monotonic()
        self._items: dict[str, Item] = {}
        self._running: dict[str, str] = {}
        self._compacting: set[str] = set()
        self._meter = UsageMeter()
        self._message: str | None = None
        self._error: Mapping[str, Any] | None = None
        self._rerouted_to: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the turn's input is on the server's disk: its userMessage item has completed."""
        return self.client_id is not None or any(item.get("type") == "userMessage" for item in self._items.values())

    @property
    def client_id(self) -> str | None:
        """The client id of the first user message: the operation that made the turn."""
        for item in self._items.values():
            if item.get("type") == "userMessage":
                return item.get("clientId")
        return None

    @property
    def progress(self) -> Progress:
        """What the turn is doing now."""
        command = next(reversed(self._running.values()), None)
        usage = self._meter.usage
        tokens = usage.total if usage else None
        return Progress(self._message, command, tokens, time.monotonic() - self._seen_at)

    def take(self, method: str, params: Mapping[str, Any]) -> None:
        """One event that carries this turn's id."""
        if method == "turn/started":
            self.started = True
        elif method == "item/started":
            self._item_started(params.get("item") or {})
        elif method == "item/completed":
            self._item_completed(params.get("item") or {})
        elif method == "thread/tokenUsage/updated":
            self._meter.take(params.get("tokenUsage") or {}, compacting=bool(self._compacting))
        elif method == "error" and not params.get("willRetry"):
            self._error = params.get("error")
        elif method == "model/rerouted":
            self._rerouted_to = params.get("toModel")
        elif method == "turn/completed":
            self._completed(params.get("turn") or {})

    def _item_started(self, item: Item) -> None:
        if item.get("type") == "commandExecution":
            self._running[str(item.get("id"))] = str(item.get("command") or "")
        elif item.get("type") == "contextCompaction":
            self._compacting.add(str(item.get("id")))

    def _item_completed(self, item: Item) -> None:
        number = str(item.get("id"))
        self._running.pop(number, None)
        self._compacting.discard(number)
        # A repetition after a broken stream counts where it comes last.
        self._items.pop(number, None)
        self._items[number] = keep_item(item)
        if item.get("type") == "agentMessage" and item.get("text"):
            self._message = str(item["text"])

    def _completed(self, turn: Mapping[str, Any]) -> None:
        milliseconds = turn.get("durationMs")
        self.end = TurnEnd(
            thread_id=self.thread_id,
            turn_id=self.turn_id,
            status=str(turn.get("status")),
            items=tuple(self._items.values()),
            usage=self._meter.usage,
            error=read_turn_error(turn.get("error") or self._error) if turn.get("status") == "failed" else None,
            seconds=milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
            rerouted_to=self._rerouted_to,
        )


def keep_item(item: Mapping[str, Any]) -> Item:
    """An item with its command output cut: the server sends up to a mebibyte of it."""
    output = item.get("aggregatedOutput")
    return {**item, "aggregatedOutput": shorten(output)} if isinstance(output, str) else dict(item)
