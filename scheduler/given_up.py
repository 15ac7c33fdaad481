"""Settle a call that ended unknown on a host that was given up: nobody can look it up any more.

While a run is driven its scheduler decides by what a second run could do, see
`lost_calls`. A run that ended before its host was given up, or whose script was over
while its last calls were at work, left such a call unknown. The same rule settles it:
where a second run can be no second effect the attempt is taken back, and a resume of
the run does it again; everything else stays unknown, and says why.
Source: journal document, "crw flow recover"; rules of the protocol, 7 and 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.guarding import may_push, shut_out
from scheduler.lost_calls import HOST_LOST, why_not_again
from scheduler.resume.suffix import left_directory
from shared.journal import questions
from shared.journal.database import Database
from shared.journal.recovery import NotRecovered, load_claim, write_given_up
from shared.journal.runs import load_spec
from shared.model.rows import CallRow


def was_given_up(database: Database, host: str, rows: Sequence[CallRow]) -> bool:
    """Whether the host of a call is lost, or its name has another home than it had for this call."""
    standing = questions.host_standing(database, host, _worker_of(rows))
    return standing is None or standing.is_given_up


def settle_given_up(database: Database, host: str, rows: Sequence[CallRow]) -> dict[str, Any]:
    """Take a call back that may run again; else say why it stays unknown.

    Args:
        rows: all rows of the call, which ended unknown; nobody drives its run.

    Returns:
        As a host's answer to the question what became of a call: `proven` with `status`, `reason` and `sentence`; else
        `reason` and `sentence`.

    Writes: `superseded`, after the guard on the hub has moved where the call may have pushed.
    """
    call, run = rows[0].call_id, rows[0].run_id
    claim = load_claim(database, call)
    assert claim is not None, "a call that ended has a claim"
    why = why_not_again(claim.kind, load_spec(database, run).roles.get(claim.role or ""), rows)
    lost = f"host {host} was given up, and only there could it be looked up"
    if why is not None:
        fork = f"'crw flow fork {run} --at {claim.path}:{claim.position}' begins a run that does it anew"
        return _unknown(HOST_LOST, f"{lost}; it is not done again by itself, since {why}; {fork}")
    if may_push(database, [call]) and (error := shut_out(database, run, HOST_LOST)) is not None:
        return _unknown("guard_not_moved", f"{lost}; {error}; recover the call again when the hub is back")
    said = f"host {host} was given up; a resume of the run does the call again on another one"
    was = rows[-1].detail.get("reason")
    facts = {"reason": HOST_LOST, "host": host, "was": was, "sentence": said, **left_directory(rows)}
    try:
        write_given_up(database, claim, host, _worker_of(rows), facts)
    except NotRecovered as error:
        return _unknown(error.reason, str(error))
    return {"proven": True, "status": "superseded", "reason": HOST_LOST, "sentence": said}


def _unknown(reason: str, sentence: str) -> dict[str, Any]:
    return {"proven": False, "reason": reason, "sentence": sentence}


def _worker_of(rows: Sequence[CallRow]) -> str | None:
    """The worker that the newest row names that names one."""
    return next((str(row.detail["worker_id"]) for row in reversed(rows) if row.detail.get("worker_id")), None)
