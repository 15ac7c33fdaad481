"""What the App Server says on its error stream: kept in a file, and its end goes with every failure.

Source: configuration boundary ("capped stderr diagnostics").
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

_LOG_BYTES = 16 << 20
# A failure carries no more of it: a row is no log.
_LAST_WORDS_BYTES = 2000


class OwnWords:
    """The error stream of one generation, at the end of the file that all of a host's write to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begins = 0

    def open(self) -> IO[bytes]:
        """Open the file for a server that starts; a large one is put aside. Raises OSError."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._begins = 0
        with contextlib.suppress(FileNotFoundError):
            if self._file.stat().st_size > _LOG_BYTES:
                self._file.replace(self._file.with_suffix(".old"))
            self._begins = self._file.stat().st_size
        return open(self._file, "ab")

    def last(self) -> str:
        """The end of what this generation said, on one line; empty when it said nothing."""
        with contextlib.suppress(OSError), open(self._file, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._begins, end - _LAST_WORDS_BYTES))
            return " ".join(file.read(_LAST_WORDS_BYTES).decode(errors="replace").split())
        return ""
