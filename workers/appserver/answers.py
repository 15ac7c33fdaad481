"""Which of a turn's messages is its answer. Pure.

Source: App Server document, "The App Server backend"; settled conflict of the
three answer rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def pick_answer(items: Iterable[Mapping[str, Any]]) -> str | None:
    """The answer among a turn's items in their order; None when there is none.

    The last final answer counts, an empty one too: it is what the model said. A
    provider without phases is taken at its last message, but only when no message of
    the turn has a phase: beside commentary, a message without one is no answer.
    A message repeated after a broken stream stands later and so wins.
    """
    final: str | None = None
    plain: str | None = None
    phased = False
    for item in items:
        if item.get("type") != "agentMessage":
            continue
        phase, text = item.get("phase"), str(item.get("text") or "")
        if phase == "final_answer":
            final = text
        elif phase is None:
            plain = text
        phased = phased or phase is not None
    if final is not None:
        return final
    return None if phased else plain
