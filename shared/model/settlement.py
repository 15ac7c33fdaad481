"""What settles a call that has no result of its own, in words. Pure.

Source: journal document, "crw flow recover" and "Held calls".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.model.call_state import RECOVERY_HOLD, CallState, is_unknown_end, read_call_state
from shared.model.rows import CallRow


@dataclass(frozen=True)
class Settlement:
    """What a call waits for, in words.

    Shape: `recover` is the call that `crw flow recover` has to settle first, if any; `resume`
    the run whose resume goes on with it, if that is what it waits for.
    """

    words: str
    recover: str | None = None
    resume: str | None = None


def read_settlement(rows: Sequence[CallRow]) -> Settlement | None:
    """What settles a call that has no result of its own; None for one that is open or has its result."""
    state = read_call_state(rows)
    row = state.terminal
    if row is None:
        return None
    reason = str(row.detail.get("reason") or row.event)
    if row.event == "outcome_unknown" and not is_unknown_end(row):
        return Settlement("the worktree it was to run in changed; a resume of its run restores it and runs the call")
    if row.event == "outcome_unknown":
        return Settlement(_unknown_words(state, row, reason), row.call_id)
    if row.event != "held":
        return None
    if reason == RECOVERY_HOLD:
        other = row.detail.get("unknown_call")
        return Settlement(
            f"its node holds until the outcome of call {other} is known", str(other) if other is not None else None
        )
    said = f": {row.detail['error']}" if row.detail.get("error") else ""
    return Settlement(f"held ({reason}{said}); a resume of its run goes on with it", resume=row.run_id)


def _unknown_words(state: CallState, row: CallRow, reason: str) -> str:
    turn = state.last_turn
    asked = f"turn t{turn.ordinal} was asked for" if turn is not None else "the App Server was asked"
    where = f" on host {row.host}" if row.host else ""
    said = f": {row.detail['error']}" if row.detail.get("error") else ""
    return f"{asked}{where} and what came of it is not known ({reason}{said})"
