"""The scenarios of the drill: a flow, its arguments, and what is lost on the flow's own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.drill import flows
from tests.drill.flows import prompt, say, write


@dataclass(frozen=True)
class Scenario:
    """One flow.

    Shape:
        cancel: cancel the run once this file is there and a turn runs.
        faults: the fake host's from the start.
        lose_host_at: the worker is killed at this point before anything else, and its host stays
            away until the cell's own fault has struck.
        recover: the host comes back at once and finds the call's thread open elsewhere; when the run has
            ended, the call is looked up again.
        give_up: the host does not come back: it is given up, and another one is there.
        lose_scheduler_at: the first scheduler is killed at this point.
        lose_host_too: the worker is killed with it, and its host stays away until it is waited for.
        tamper: meanwhile somebody writes into the node's worktree; `again` also into each that is restored.
        keep_directories: the worker cannot remove the directories of calls.
        kinds: the rows it is there for; None for all that no other scenario is there for.
    """

    name: str
    script: str
    args: Mapping[str, Any] = field(default_factory=dict)
    cancel: str | None = None
    faults: tuple[dict[str, Any], ...] = ()
    lose_host_at: str | None = None
    recover: bool = False
    give_up: bool = False
    lose_scheduler_at: str | None = None
    lose_host_too: bool = False
    tamper: str | None = None
    keep_directories: bool = False
    kinds: frozenset[str] | None = None


# These flows write one line where they can be taken over; it may be committed together with the end of the run.
_AT_ITS_LOG = "before:log"
_OF_TURNS = frozenset({
    "started", "phase", "log", "placed", "thread_requested", "thread_started", "turn_requested", "turn_started",
    "user_message_seen", "turn_ended",
})  # fmt: skip


def make_scenarios(place: Path, head: str) -> dict[str, Scenario]:
    """The scenarios by name.

    Args:
        place: where commands of the flows leave their marks and find their gates (`gate`).
        head: the commit the runs start at.
    """
    gate = f"touch {place}/running; while [ -e {place}/gate ]; do sleep 0.02; done; test -e a.txt"
    args = {
        "build": prompt("Build.", write("a.txt", "one"), say("built")),
        "mend": prompt("Mend.", write("b.txt", "two"), say("mended")),
        "check": gate,
        "null": prompt("Say what nobody can read.", {"out": [{"msg": "not json", "phase": "final_answer"}]}),
        "done": prompt("Say it.", say("done")),
        "hang": prompt("Think.", {"hang": True}),
        "vanish": prompt("Fail.", {"before": 0.6, "out": [{"exec": "rm -f $CODEX_HOME/sessions/*; kill -9 $PPID"}]}),
        # It takes its time to end, so that whoever cancels finds it at work.
        "wait": f"trap 'sleep 0.7; exit 1' TERM; touch {place}/waits; sleep 300 & wait",
        "deadline": 1.5,
        "head": head,
    }
    die_once = {"method": "turn/start", "do": "die", "once": True}
    named = [
        Scenario("work", flows.WORK, args),
        Scenario("turns", flows.TURNS, args, kinds=_OF_TURNS),
        Scenario("ends", flows.ENDS, args, kinds=frozenset({"null_model", "refused", "held", "interrupt_requested",
                                                       "interrupted"})),
        Scenario("lost", flows.LOST, args, faults=(die_once,), kinds=frozenset({"turn_lost"})),
        Scenario("unknown", flows.UNKNOWN, args, kinds=frozenset({"outcome_unknown"})),
        Scenario("cancel", flows.CANCEL, args, cancel="waits",
                 kinds=frozenset({"withdrawn", "cancel_waiting"})),
        Scenario("given_up", flows.TALK, args, lose_host_at="after:turn_started#2", give_up=True,
                 kinds=frozenset({"superseded", "worktree_preserved", "worktree_restored", "conversation",
                                  "checkpoint_started"})),
        Scenario("tampered", flows.TALK, args, lose_scheduler_at=_AT_ITS_LOG,
                 tamper="once", kinds=frozenset({"fork_requested", "fork_started"})),
        Scenario("mismatch", flows.TALK, args, lose_scheduler_at=_AT_ITS_LOG,
                 tamper="again", faults=({"method": "thread/fork", "do": "late", "seconds": 1.0, "times": 9},),
                 kinds=frozenset({"escalation"})),
        Scenario("waited_for", flows.TAKEN_OVER, args, lose_scheduler_at=_AT_ITS_LOG, lose_host_too=True,
                 kinds=frozenset({"host_answered"})),
        Scenario("left", flows.LEFT, args, lose_scheduler_at=_AT_ITS_LOG, keep_directories=True,
                 kinds=frozenset({"own_directory_kept"})),
        Scenario("held", flows.HELD, args, lose_scheduler_at=_AT_ITS_LOG, kinds=frozenset({"hold_cleared"})),
        Scenario("failing", flows.FAILING, args, kinds=frozenset({"ending"})),
        Scenario("recovered", flows.RECOVERED, args, lose_host_at="before:turn_ended", recover=True,
                 kinds=frozenset({"recovery_cleared"})),
        Scenario("silent", flows.LOST, {**args, "done": args["build"]}, lose_host_at="after:turn_started",
                 kinds=frozenset({"waiting_for_host"})),
    ]  # fmt: skip
    return {scenario.name: scenario for scenario in named}
