"""What a run says of a host that it waits for, and what a person should look at: a silence longer than a restart.

Source: rules of the protocol, 27; definition of escalations.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.model.rows import NewEventRow

ESCALATE_SECONDS = 120.0


def waiting_for_host(
    host: str, calls: Sequence[str], reason: str = "host_unreachable", sentence: str | None = None
) -> NewEventRow:
    """The row that names the host.

    Shape: `host`, `calls` that wait for it (none where a resume waits for what it has to say), `reason`, and the
    host's own `sentence` where it answered and could not say it.
    """
    said = {"sentence": sentence} if sentence else {}
    return NewEventRow("waiting_for_host", {"host": host, "calls": list(calls), "reason": reason, **said})


def silent_host_escalation(host: str, calls: Sequence[str], silent_seconds: float) -> NewEventRow:
    """The row that asks people to look.

    Shape: `reason`, `host` and `calls` as above, `silent_seconds` at that moment, `ask` for people.
    """
    mend = f"start its worker, or give it up with 'crw host lost {host}'"
    ask = f"host {host} has been silent for {silent_seconds:.0f} s: {mend}"
    facts = {"reason": "waiting_for_host", "host": host, "calls": list(calls), "silent_seconds": round(silent_seconds)}
    return NewEventRow("escalation", {**facts, "ask": ask})
