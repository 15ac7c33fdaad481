"""Commands of turns: running, left behind, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Any


@dataclass
class Terminal:
    """One command. `output` resolves at its end."""

    thread_id: str
    item_id: str
    command: str
    child: asyncio.subprocess.Process
    output: asyncio.Future[tuple[bytes, bytes]]


class Terminals:
    """All commands of all threads that have not ended."""

    def __init__(self) -> None:
        self._open: list[Terminal] = []

    def add(self, thread_id: str, item_id: str, command: str, child: asyncio.subprocess.Process) -> Terminal:
        """Watch a command that was just started."""
        output = asyncio.ensure_future(child.communicate())
        terminal = Terminal(thread_id, item_id, command, child, output)
        self._open.append(terminal)
        output.add_done_callback(lambda _: self._open.remove(terminal))
        return terminal

    def list(self, thread_id: str) -> list[dict[str, Any]]:
        """The protocol's view of a thread's running commands."""
        return [
            {"itemId": t.item_id, "processId": str(t.child.pid), "command": t.command, "cwd": "", "osPid": None}
            for t in self._open
            if t.thread_id == thread_id
        ]

    def clean(self, thread_id: str) -> None:
        """Kill a thread's running commands."""
        for terminal in self._open:
            if terminal.thread_id == thread_id:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(terminal.child.pid, signal.SIGKILL)
