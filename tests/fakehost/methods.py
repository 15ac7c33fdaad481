"""The requests the fake answers, each as the real server does where the contract suite looks."""

from __future__ import annotations

import copy
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tests.fakehost.listing import thread_archive, thread_delete, thread_list
from tests.fakehost.sending import turn_interrupt, turn_start, turn_steer
from tests.fakehost.store import FakeThread, need_active, need_turns, new_id
from tests.fakehost.wire import RpcError, invalid

if TYPE_CHECKING:
    from tests.fakehost.host import Host

Params = Mapping[str, Any]
Reply = dict[str, Any] | None

_SANDBOXES = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
}


def echo_sandbox(word: str, config: Params) -> dict[str, Any]:
    """A sandbox word as replies show it."""
    if word not in _SANDBOXES:
        raise invalid(f"Invalid request: unknown variant `{word}`, expected one of `read-only`, `workspace-write`")
    if word == "danger-full-access":
        return {"type": "dangerFullAccess"}
    asked = config.get("sandbox_workspace_write") or {}
    if word == "read-only":
        return {"type": "readOnly", "networkAccess": False}
    return {
        "type": "workspaceWrite",
        "writableRoots": list(asked.get("writable_roots", [])),
        "networkAccess": bool(asked.get("network_access")),
        "excludeTmpdirEnvVar": bool(asked.get("exclude_tmpdir_env_var")),
        "excludeSlashTmp": bool(asked.get("exclude_slash_tmp")),
    }


def _merged(host: Host, params: Params) -> dict[str, Any]:
    return {**host.config, **(params.get("config") or {})}


def thread_start(host: Host, params: Params) -> Reply:
    config = _merged(host, params)
    thread = FakeThread(
        id=new_id(),
        cwd=os.path.abspath(params.get("cwd") or os.getcwd()),
        model=params.get("model") or config.get("model") or "fake",
        effort=config.get("model_reasoning_effort"),
        sandbox=echo_sandbox(params.get("sandbox") or "read-only", config),
        approval_policy=params.get("approvalPolicy") or "on-request",
        provider=config.get("model_provider", "openai"),
        source=params.get("threadSource"),
    )
    return _opened(host, thread)


def thread_fork(host: Host, params: Params) -> Reply:
    source = host.store.find_stored(params["threadId"])
    need_active(source)
    last = params.get("lastTurnId")
    turns = [turn["id"] for turn in source.turns]
    if last is not None and last not in turns:
        raise invalid(f"turn not found: {last}")
    if last is not None and host.is_running(source.id, last):
        raise invalid(f"lastTurnId '{last}' identifies an in-progress turn")
    kept = copy.deepcopy(source.turns[: turns.index(last) + 1] if last else source.turns)
    config = _merged(host, params)
    # Model, effort and sandbox are not inherited.
    fork = FakeThread(
        id=new_id(),
        cwd=params.get("cwd") or source.cwd,
        model=params.get("model") or config.get("model") or "fake",
        effort=config.get("model_reasoning_effort"),
        sandbox=echo_sandbox(params.get("sandbox") or "read-only", config),
        approval_policy=params.get("approvalPolicy") or source.approval_policy,
        provider=source.provider,
        source=params.get("threadSource"),
        forked_from=source.id,
        turns=kept,
        total=dict(source.total),
    )
    reply = _opened(host, fork)
    host.store.save(fork)
    return reply


def thread_resume(host: Host, params: Params) -> Reply:
    thread_id = params["threadId"]
    was_loaded = thread_id in host.store.loaded
    thread = host.store.load(thread_id)
    if not was_loaded:
        config = _merged(host, params)
        thread.cwd = params.get("cwd") or thread.cwd
        thread.model = params.get("model") or thread.model
        thread.effort = config.get("model_reasoning_effort") or thread.effort
        thread.approval_policy = params.get("approvalPolicy") or thread.approval_policy
        if params.get("sandbox"):
            thread.sandbox = echo_sandbox(params["sandbox"], config)
    host.listen(thread_id)
    return {"thread": thread.view(host.status(thread), host.version), **thread.settings()}


def _opened(host: Host, thread: FakeThread) -> Reply:
    host.store.add(thread)
    host.listen(thread.id)
    view = thread.view("idle", host.version)
    host.later(lambda: host.wire.notify("thread/started", {"thread": view}))
    return {"thread": view, **thread.settings()}


def thread_read(host: Host, params: Params) -> Reply:
    thread = host.store.find(params["threadId"])
    view = thread.view(host.status(thread), host.version)
    if params.get("includeTurns"):
        if not thread.turns:
            raise RpcError(-32601, "list_turns is not supported yet")
        view["turns"] = [_turn_view(turn, "full") for turn in thread.turns]
    return {"thread": view}


def thread_unsubscribe(host: Host, params: Params) -> Reply:
    loaded = params["threadId"] in host.store.loaded
    host.unlisten(params["threadId"])
    return {"status": "unsubscribed" if loaded else "notLoaded"}


def turns_list(host: Host, params: Params) -> Reply:
    thread = host.store.find(params["threadId"])
    need_turns(thread, "thread/turns/list")
    view = params.get("itemsView") or "summary"
    turns = list(thread.turns)
    if params.get("sortDirection") != "asc":
        turns.reverse()
    page, cursor = _page(turns, params)
    return {"data": [_turn_view(turn, view) for turn in page], "nextCursor": cursor}


def _turn_view(turn: dict[str, Any], view: str) -> dict[str, Any]:
    if view == "full":
        return {**turn, "itemsView": "full"}
    if view == "notLoaded":
        return {**turn, "items": [], "itemsView": "notLoaded"}
    first = [item for item in turn["items"] if item["type"] == "userMessage"][:1]
    answers = [i for i in turn["items"] if i["type"] == "agentMessage" and i["phase"] != "commentary"]
    return {**turn, "items": first + answers[-1:], "itemsView": "summary"}


def items_list(host: Host, params: Params) -> Reply:
    thread = host.store.find(params["threadId"])
    need_turns(thread, "thread/items/list")
    only = params.get("turnId")
    entries = [
        {"turnId": turn["id"], "item": item}
        for turn in thread.turns
        if only in (None, turn["id"])
        for item in turn["items"]
    ]
    page, cursor = _page(entries, params)
    return {"data": page, "nextCursor": cursor}


def _page(rows: list[Any], params: Params) -> tuple[list[Any], str | None]:
    start = 0
    if params.get("cursor"):
        try:
            start = int(json.loads(params["cursor"])["rolloutOrdinal"])
        except (ValueError, KeyError, TypeError):
            raise invalid(f"invalid cursor: {params['cursor']}") from None
    end = start + int(params.get("limit") or 25)
    more = json.dumps({"requestedThreadId": params["threadId"], "rolloutOrdinal": end}) if end < len(rows) else None
    return rows[start:end], more


def terminals_clean(host: Host, params: Params) -> Reply:
    host.terminals.clean(params["threadId"])
    return {}


def config_read(host: Host, params: Params) -> Reply:
    file = host.home / "config.toml"
    try:
        own = tomllib.loads(file.read_text()) if file.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise RpcError(-32603, f"failed to read configuration layers: {file}: {error}") from None
    return {"config": {"mcp_servers": {}, **own, **host.config}}


METHODS: dict[str, Callable[[Host, Params], Reply]] = {
    "thread/start": thread_start,
    "thread/fork": thread_fork,
    "thread/resume": thread_resume,
    "thread/read": thread_read,
    "thread/unsubscribe": thread_unsubscribe,
    "thread/list": thread_list,
    "thread/archive": thread_archive,
    "thread/delete": thread_delete,
    "thread/turns/list": turns_list,
    "thread/items/list": items_list,
    "thread/loaded/list": lambda host, params: {"data": list(host.store.loaded), "nextCursor": None},
    "thread/backgroundTerminals/list": lambda host, params: {
        "data": host.terminals.list(params["threadId"]),
        "nextCursor": None,
    },
    "thread/backgroundTerminals/clean": terminals_clean,
    "turn/start": turn_start,
    "turn/steer": turn_steer,
    "turn/interrupt": turn_interrupt,
    "config/read": config_read,
    "account/read": lambda host, params: {"account": None, "requiresOpenaiAuth": False},
    "model/list": lambda host, params: {"data": [], "nextCursor": None},
}
