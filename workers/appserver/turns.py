"""Turns: send one, interrupt one, read one back, and end the commands it left.

Source: App Server document, "The App Server backend"; facts of the App Server,
"Turn ends", "turn/interrupt", "Duplicate sends".
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.base.errors import AnswerLost, NotSent, Refused, ThreadMissing, Unreadable
from shared.model.operation import marker_line
from workers.appserver.guard import guard_schema
from workers.appserver.limits import TurnError, read_turn_error
from workers.appserver.record import Item, TurnEnd, keep_item
from workers.appserver.router import Router, TurnCursor
from workers.appserver.rpc import BeforeSend, Rpc

_PAGE_TURNS = 20
_VIEW = "full"
_PAGE_ITEMS = 100
_FIND_LOST_SECONDS = 5.0
_INTERRUPT_REPLY_SECONDS = 5.0
_RETRY_SECONDS = 0.05


@dataclass(frozen=True)
class TurnRequest:
    """One turn to send.

    Shape: `operation` is `<call>/t<k>`; `nonce` this send's own random text, on
    record in its intent; `schema` the call's or None; `cwd` None for an executor,
    whose thread alone says where it works.
    """

    operation: str
    nonce: str
    prompt: str
    model: str
    effort: str
    schema: Mapping[str, Any] | None = None
    cwd: str | None = None


@dataclass(frozen=True)
class FullTurn:
    """A turn read back with all of its items.

    `completed_at` None means that the process that ran it died: seen from a process
    that has not loaded the thread, `interrupted` then proves nothing.
    """

    id: str
    status: str
    items: tuple[Item, ...]
    error: TurnError | None
    completed_at: int | None


def plan_turn(thread_id: str, request: TurnRequest) -> dict[str, Any]:
    """The params of turn/start. Pair and schema go with every turn."""
    text = f"{marker_line(request.operation)}\n{request.prompt}"
    params: dict[str, Any] = {
        "threadId": thread_id,
        "input": [{"type": "text", "text": text}],
        "clientUserMessageId": request.operation,
        "model": request.model,
        "effort": request.effort,
        "outputSchema": guard_schema(request.schema, request.operation, request.nonce),
    }
    return params if request.cwd is None else {**params, "cwd": request.cwd}


# A loaded thread before its first turn has no pages: these are the server's ways to say so.
_NO_TURNS = ("is not materialized yet", "is not supported yet")


def _says_no_turns(error: Unreadable) -> bool:
    return any(text in str(error.facts.get("said")) for text in _NO_TURNS)


class Turns:
    """The turns of one connection's threads."""

    def __init__(self, rpc: Rpc, router: Router) -> None:
        self._rpc = rpc
        self._router = router

    def cursor(self, thread_id: str) -> TurnCursor:
        """Listen to a thread; open it before the turn is sent, close it when the turn is done with."""
        return self._router.open(thread_id)

    def start(self, cursor: TurnCursor, request: TurnRequest, before_send: BeforeSend | None = None) -> str:
        """Send the turn and bind the cursor to it. Returns the turn's id.

        An answer that was lost is looked for in the events: the turn whose first
        input carries the operation is the one that was sent.

        Raises:
            TurnActive: a turn is running on the thread: nothing was added to it.
            NotSent, Refused, AnswerLost: the last one only when no event names the operation.
        """
        try:
            result = self._rpc.request("turn/start", plan_turn(cursor.thread_id, request), before_send=before_send)
            turn_id = str(result["turn"]["id"])
        except AnswerLost:
            found = cursor.find_operation(request.operation, _FIND_LOST_SECONDS)
            if found is None:
                raise
            turn_id = found
        cursor.bind(turn_id)
        return turn_id

    def interrupt(
        self, cursor: TurnCursor, *, timeout_seconds: float = 20.0, before_send: BeforeSend | None = None
    ) -> TurnEnd | None:
        """Interrupt the cursor's turn and wait for its end; None when the end did not come in time.

        The server refuses an interrupt until the turn has really begun, and never
        answers one on a turn that it interrupted before; so this waits for the begin,
        asks again while the turn runs on, and believes the turn's end alone. Commands
        of the turn run on: `clean_terminals` ends them.

        Raises:
            AnswerLost: the server ended. ThreadMissing: it does not have the thread.
        """
        if not cursor.turn_id:
            raise ValueError("an interrupt without a turn's id would stop whatever runs on the thread")
        deadline = time.monotonic() + timeout_seconds
        cursor.wait_started(timeout_seconds)
        while cursor.ended is None and (left := deadline - time.monotonic()) > 0:
            try:
                params = {"threadId": cursor.thread_id, "turnId": cursor.turn_id}
                reply_seconds = min(left, _INTERRUPT_REPLY_SECONDS)
                self._rpc.request("turn/interrupt", params, timeout_seconds=reply_seconds, before_send=before_send)
                break
            except ThreadMissing:
                raise
            except (Refused, NotSent):
                # Not yet active, just ended, or overloaded: the events tell which.
                cursor.wait(min(left, _RETRY_SECONDS))
            except AnswerLost:
                break
        return cursor.wait(max(0.0, deadline - time.monotonic()))

    def clean_terminals(self, thread_id: str, *, timeout_seconds: float = 10.0) -> bool:
        """End the commands that a thread's turns left running. Whether none is left.

        Raises:
            NotSent, Refused, AnswerLost.
        """
        deadline = time.monotonic() + timeout_seconds
        while self._list_terminals(thread_id):
            if time.monotonic() > deadline:
                return False
            self._rpc.request("thread/backgroundTerminals/clean", {"threadId": thread_id})
            if self._list_terminals(thread_id):
                time.sleep(_RETRY_SECONDS)
        return True

    def _list_terminals(self, thread_id: str) -> list[Any]:
        return list(self._rpc.request("thread/backgroundTerminals/list", {"threadId": thread_id}).get("data") or [])

    def read_full(self, thread_id: str, turn_id: str) -> FullTurn | None:
        """Read a turn back with all of its items; None when the thread has no such turn.

        Raises:
            Unreadable: the turn is there and its items cannot be read in full.
            ThreadMissing, NotSent, AnswerLost.
        """
        for turn in self._turns(thread_id):
            if turn.get("id") == turn_id:
                return self._full(thread_id, turn)
        return None

    def list_full(self, thread_id: str) -> Iterator[FullTurn]:
        """The turns of a thread with all of their items, the newest first; none for a thread before its first.

        Raises:
            Unreadable, ThreadMissing, NotSent, AnswerLost.
        """
        try:
            for turn in self._turns(thread_id):
                yield self._full(thread_id, turn)
        except Unreadable as error:
            if not _says_no_turns(error):
                raise

    def _turns(self, thread_id: str) -> Iterator[Mapping[str, Any]]:
        params = {"threadId": thread_id, "itemsView": _VIEW, "limit": _PAGE_TURNS}
        for page in self._pages("thread/turns/list", params):
            yield from page

    def _full(self, thread_id: str, turn: Mapping[str, Any]) -> FullTurn:
        turn_id = str(turn.get("id"))
        items = turn.get("items") or []
        if turn.get("itemsView") != "full":
            items = self._list_items(thread_id, turn_id)
        return FullTurn(
            id=turn_id,
            status=str(turn.get("status")),
            items=tuple(keep_item(item) for item in items),
            error=read_turn_error(turn.get("error")),
            completed_at=turn.get("completedAt"),
        )

    def _list_items(self, thread_id: str, turn_id: str) -> list[Item]:
        params = {"threadId": thread_id, "turnId": turn_id, "limit": _PAGE_ITEMS}
        pages = self._pages("thread/items/list", params)
        return [entry["item"] for page in pages for entry in page if entry.get("turnId") == turn_id]

    def _pages(self, method: str, params: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Every page of a list, one after the other; a refusal of any is an unreadable turn."""
        cursor, seen = None, set[str]()
        while True:
            try:
                result = self._rpc.request(method, {**params, **({"cursor": cursor} if cursor else {})})
            except ThreadMissing:
                raise
            except Refused as error:
                sentence = f"the turns of {params['threadId']} cannot be read: {error}"
                raise Unreadable(sentence, method=method, said=str(error)) from error
            yield result.get("data") or []
            cursor = result.get("nextCursor")
            if not cursor:
                return
            # A server that repeats a cursor would be read for ever.
            if str(cursor) in seen:
                raise Unreadable(f"{method} repeats its cursor for {params['threadId']}", method=method)
            seen.add(str(cursor))
