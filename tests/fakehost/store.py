"""The fake's threads: in memory while loaded, on disk under CODEX_HOME from their first input on."""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.fakehost.wire import RpcError, invalid

Turn = dict[str, Any]


def new_id() -> str:
    """An id as the server makes them: a UUID that begins with the time."""
    raw = int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10)
    return str(uuid.UUID(bytes=raw))


@dataclass
class FakeThread:
    """One thread.

    Shape: `turns` in order, each in its full view; `total` the tokens of its life;
    `listed` whether it has had a turn of its own; `archived` whether it was put aside.
    """

    id: str
    cwd: str
    model: str
    effort: str | None
    sandbox: dict[str, Any]
    approval_policy: Any
    provider: str
    source: str | None = None
    name: str | None = None
    forked_from: str | None = None
    created_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    updated_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    listed: bool = False
    archived: bool = False
    turns: list[Turn] = field(default_factory=list)
    total: dict[str, int] = field(default_factory=dict)
    failed: bool = False

    def view(self, status: str, version: str) -> dict[str, Any]:
        """The protocol's Thread."""
        flags: dict[str, Any] = {"activeFlags": []} if status == "active" else {}
        preview = next((i["content"][0]["text"] for t in self.turns for i in t["items"]), "")
        return {
            "id": self.id,
            "sessionId": self.id,
            "forkedFromId": self.forked_from,
            "parentThreadId": None,
            "preview": preview,
            "ephemeral": False,
            "historyMode": "paginated",
            "modelProvider": self.provider,
            "model": self.model,
            "reasoningEffort": self.effort,
            "createdAt": self.created_ms // 1000,
            "updatedAt": self.updated_ms // 1000,
            "recencyAt": self.updated_ms // 1000,
            "status": {"type": status, **flags},
            "path": f"{self.id}.json",
            "cwd": self.cwd,
            "cliVersion": version,
            "originator": "crw-farm",
            "source": "vscode",
            "canAcceptDirectInput": True if status != "notLoaded" else None,
            "threadSource": self.source,
            "gitInfo": None,
            "name": self.name,
            "turns": [],
        }

    def settings(self) -> dict[str, Any]:
        """What start, fork and resume echo beside the thread."""
        return {
            "model": self.model,
            "modelProvider": self.provider,
            "serviceTier": None,
            "cwd": self.cwd,
            "runtimeWorkspaceRoots": [self.cwd],
            "instructionSources": [],
            "approvalPolicy": self.approval_policy,
            "approvalsReviewer": "user",
            "sandbox": self.sandbox,
            "activePermissionProfile": None,
            "reasoningEffort": self.effort,
            "multiAgentMode": "explicitRequestOnly",
        }


class Store:
    """Loaded threads, and the files of all others."""

    def __init__(self, home: Path) -> None:
        self.loaded: dict[str, FakeThread] = {}
        self._sessions = home / "sessions"
        self._locks = home / "thread-writer-locks"
        self._held: dict[str, IO[str]] = {}
        for directory in (self._sessions, self._locks):
            directory.mkdir(parents=True, exist_ok=True)

    def add(self, thread: FakeThread) -> None:
        """Hold a new thread in memory; nothing of it is on disk yet."""
        self._lock(thread.id)
        self.loaded[thread.id] = thread

    def save(self, thread: FakeThread) -> None:
        """Write a thread whole; a kill leaves the old file or the new one."""
        thread.updated_ms = int(time.time() * 1000)
        file = self._sessions / f"{thread.id}.json"
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(thread)))
        partial.replace(file)

    def has_forks(self, thread_id: str) -> bool:
        """Whether a thread on disk was forked from this one."""
        stored = (self.on_disk(file.stem) for file in self._sessions.glob("*.json"))
        return any(thread is not None and thread.forked_from == thread_id for thread in stored)

    def remove(self, thread: FakeThread) -> None:
        """Take a thread from memory and from the disk."""
        self.unload(thread.id)
        (self._sessions / f"{thread.id}.json").unlink()

    def on_disk(self, thread_id: str) -> FakeThread | None:
        """A thread as its file has it: a turn that no live process runs reads as cut."""
        try:
            thread = FakeThread(**json.loads((self._sessions / f"{thread_id}.json").read_text()))
        except FileNotFoundError:
            return None
        thread.failed = False
        for turn in thread.turns:
            if turn["status"] == "inProgress":
                turn["status"] = "interrupted"
        return thread

    def find(self, thread_id: str) -> FakeThread:
        """Loaded or on disk, for reading."""
        _check_id(thread_id)
        thread = self.loaded.get(thread_id) or self.on_disk(thread_id)
        if thread is None:
            raise invalid(f"thread not loaded: {thread_id}")
        return thread

    def find_stored(self, thread_id: str) -> FakeThread:
        """One that has a file, for a resume, a fork or the archive."""
        _check_id(thread_id)
        stored = self.on_disk(thread_id)
        if stored is None:
            raise invalid(f"no rollout found for thread id {thread_id}")
        return self.loaded.get(thread_id) or stored

    def listed(self) -> list[FakeThread]:
        """Every thread that a list may show."""
        ids = [file.stem for file in self._sessions.glob("*.json")]
        found = (self.loaded.get(thread_id) or self.on_disk(thread_id) for thread_id in ids)
        return [thread for thread in found if thread is not None and thread.listed]

    def need_loaded(self, thread_id: str) -> FakeThread:
        """Loaded, for a turn."""
        _check_id(thread_id)
        if thread_id not in self.loaded:
            raise invalid(f"thread not found: {thread_id}")
        return self.loaded[thread_id]

    def load(self, thread_id: str) -> FakeThread:
        """For a resume: from disk, under the thread's writer lock."""
        thread = self.find_stored(thread_id)
        need_active(thread)
        if thread_id not in self.loaded:
            self._lock(thread_id)
            self.loaded[thread_id] = thread
        return thread

    def unload(self, thread_id: str) -> None:
        """Out of memory, and free for another process."""
        self.loaded.pop(thread_id, None)
        if held := self._held.pop(thread_id, None):
            held.close()

    def _lock(self, thread_id: str) -> None:
        file = open(self._locks / f"{thread_id}.lock", "w")  # noqa: SIM115 - held until the process ends
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise invalid(f"thread {thread_id} already has an active writer") from None
        self._held[thread_id] = file


def _check_id(thread_id: str) -> None:
    try:
        uuid.UUID(thread_id)
    except ValueError as error:
        raise invalid(f"invalid thread id: invalid character: {error}") from None


def need_active(thread: FakeThread) -> None:
    """Refuse what an archived thread cannot do."""
    if thread.archived:
        raise invalid(f"session {thread.id} is archived. Run `codex unarchive {thread.id}` to unarchive it first.")


def need_turns(thread: FakeThread, method: str) -> None:
    """Refuse what only a thread with a turn can answer."""
    if not thread.turns:
        if method == "thread/items/list":
            raise RpcError(-32601, "thread/items/list is not supported yet")
        sentence = f"thread {thread.id} is not materialized yet; {method} is unavailable before first user message"
        raise invalid(sentence)
