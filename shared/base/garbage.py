"""How often this process looks for cyclic garbage.

A run that is loaded is tens of thousands of rows, none of them part of a cycle; with
Python's own thresholds the collector looks at all of them again and again while they
come, which took as long as reading them.
"""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 50_000
_ROUNDS = 20


def collect_seldom() -> None:
    """Let the collector run after many new objects instead of after hundreds; for processes that hold runs."""
    gc.set_threshold(_YOUNG_OBJECTS, _ROUNDS, _ROUNDS)
