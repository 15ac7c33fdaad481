"""Faults a test asks for, and the log of what came in.

Shape of a fault in `faults.json`: `method` of the request it strikes, `at` how often
that method must have come to this process before (default 0), `times` (default 1),
`once` that it strikes once in all processes of this fake, and `do`:

    drop        take it, do it, answer nothing
    lose        never see it
    overload    answer -32001 and do nothing
    refuse      answer an error: `code`, `message`
    late        do it, answer after `seconds`
    die         end before it is done
    die_after   do it, end before the answer goes out
    die_answered  do it, answer, end
    garbage     write a line that is no JSON and one of 2 MiB, then do it
    alter       do it with these members of `params` instead of the ones that were sent
    deaf        stop reading for `seconds`
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any


class Faults:
    """Which fault strikes the next request of a method."""

    def __init__(self, state: Path) -> None:
        self._file = state / "faults.json"
        self._seen: Counter[str] = Counter()

    def strike(self, method: str) -> dict[str, Any] | None:
        """The fault for this request, counted as seen."""
        number = self._seen[method]
        self._seen[method] += 1
        try:
            faults = json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        for fault in faults:
            first = fault.get("at", 0)
            if fault["method"] == method and first <= number < first + fault.get("times", 1) and self._is_due(fault):
                return dict(fault)
        return None

    def _is_due(self, fault: dict[str, Any]) -> bool:
        if not fault.get("once"):
            return True
        mark = self._file.with_name(f"struck-{fault['method'].replace('/', '-')}-{fault['do']}")
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Log:
    """Append-only files of JSON lines in the state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def write(self, name: str, **entry: Any) -> None:
        """One line, written at once: it must outlive a kill."""
        line = json.dumps({"pid": os.getpid(), "at": time.time(), **entry}) + "\n"
        with open(self._state / name, "a", encoding="utf-8") as sink:
            sink.write(line)
