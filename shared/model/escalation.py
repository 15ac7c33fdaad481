"""What a person should look at: a run that waits for a silent host for longer than a restart takes.

Source: rules of the protocol, 27; definition of escalations.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.model.rows import NewEventRow

ESCALATE_SECONDS = 120.0


def silent_host_escalation(host: str, calls: Sequence[str], silent_seconds: float) -> NewEventRow:
    """The row that says so.

    Shape: `reason`, `host`, `calls` that wait for it (none where a resume waits for what it has to say),
    `silent_seconds` at that moment, `ask` for people.
    """
    mend = f"start its worker, or give it up with 'crw host lost {host}'"
    ask = f"host {host} has been silent for {silent_seconds:.0f} s: {mend}"
    facts = {"reason": "waiting_for_host", "host": host, "calls": list(calls), "silent_seconds": round(silent_seconds)}
    return NewEventRow("escalation", {**facts, "ask": ask})
