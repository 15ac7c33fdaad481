"""The flows of the drill: small, and together they write every row kind that the engine can write.

A flow's result holds nothing that may differ between two runs of it: no commit id, no
time. What its models do to files can be done twice with one outcome, since a turn that
was cut by a death goes on and may do it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


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
        lose_scheduler_at: the first scheduler is killed once there are `lose_scheduler_count` of this row.
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
    lose_scheduler_count: int = 1
    lose_host_too: bool = False
    tamper: str | None = None
    keep_directories: bool = False
    kinds: frozenset[str] | None = None

    @property
    def has_mishap(self) -> bool:
        """Whether something is lost on the flow's own way, before the cell's fault."""
        return bool(self.lose_host_at or self.lose_scheduler_at or self.recover or self.tamper)


def say(summary: str) -> dict[str, Any]:
    """The step that answers with this summary."""
    return {"out": [{"msg": json.dumps({"summary": summary}), "phase": "final_answer"}]}


def write(name: str, text: str) -> dict[str, Any]:
    """The step that writes a file, the same one however often."""
    return {"out": [{"exec": f"printf {text} > {name}"}]}


def prompt(text: str, *steps: dict[str, Any]) -> str:
    """A prompt that tells the scripted model what to do."""
    return f"{text}\n[[steps:{json.dumps(list(steps))}]]"


_WORK = f"""
SCHEMA = {SCHEMA!r}

async def main(flow, args):
    flow.phase("work")
    await flow.crw.clock()

    async def lane(name):
        built = await flow.agent(args["build"], role="executor", node=name, schema=SCHEMA)
        mended = await built.call(args["mend"], schema=SCHEMA)
        head = await flow.crw.commit(node=name, message="work of " + name)
        checked = await flow.crw.verify(node=name, head=head["commit"], command=args["check"])
        flow.log("checked " + name)
        return [head["commit"], built["summary"], mended["summary"], head["tree"], checked["passed"]]

    lanes = await flow.parallel({{"a": lane("a")}})
    merged = await flow.crw.integrate(heads={{name: lane[0] for name, lane in lanes.items()}})
    return {{"lanes": {{name: lane[1:] for name, lane in lanes.items()}}, "merged": merged["merged"]}}
"""

_TURNS = f"""
SCHEMA = {SCHEMA!r}

async def main(flow, args):
    flow.phase("turns")
    await flow.crw.clock()

    async def lane(name):
        built = await flow.agent(args["build"], role="executor", node=name, schema=SCHEMA)
        flow.log("built by " + name)
        return await built.call(args["mend"], schema=SCHEMA)

    return await flow.parallel({{"a": lane("a")}})
"""

_ENDS = f"""
SCHEMA = {SCHEMA!r}

async def main(flow, args):
    answers = {{
        "null": await flow.agent(args["null"], role="reviewer", schema=SCHEMA),
        "held": await flow.agent(args["hang"], role="executor", node="h", schema=SCHEMA, deadline=args["deadline"]),
        "refused": await flow.agent(args["done"], role="qa", schema=SCHEMA),
        "completed": await flow.agent(args["done"], role="reviewer", schema=SCHEMA),
    }}
    return {{name: [answer.status, answer.reason] for name, answer in answers.items()}}
"""

_LOST = f"""
async def main(flow, args):
    return (await flow.agent(args["done"], role="executor", node="n", schema={SCHEMA!r}))["summary"]
"""

_UNKNOWN = f"""
async def main(flow, args):
    first = await flow.agent(args["vanish"], role="executor", node="n", schema={SCHEMA!r})
    second = await flow.agent(args["done"], role="executor", node="n", schema={SCHEMA!r})
    third = await flow.agent(args["done"], role="reviewer", schema={SCHEMA!r})
    return [first.status, second.status, second.reason, third.status]
"""

_RECOVERED = f"""
async def main(flow, args):
    return (await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})).status
"""

_TALK = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    await flow.sleep(args["pause"])
    return [built["summary"], mended.status, mended.reason, mended.output]
"""

_PAUSED = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    await flow.sleep(1.0)
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    return [built["summary"], mended["summary"]]
"""

_LEFT = f"""
async def main(flow, args):
    said = await flow.agent(args["done"], role="reviewer", schema={SCHEMA!r})
    # A conversation that reads another head has a directory of its own for it.
    told = await said.call(args["done"], head=args["head"], schema={SCHEMA!r})
    await flow.sleep(1.0)
    again = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    return [said["summary"], told["summary"], again["summary"]]
"""

_HELD = f"""
async def main(flow, args):
    held = await flow.agent(
        args["hang"], role="executor", node="h", schema={SCHEMA!r}, deadline=args["deadline"]
    )
    await flow.sleep(1.0)
    return [held.status, held.reason]
"""

_FAILING = """
import asyncio

async def main(flow, args):
    asyncio.create_task(flow.crw.verify(head=args["head"], command=args["wait"], node="v"))
    await asyncio.sleep(0.5)
    raise ValueError("a fault of the script's own")
"""

_CANCEL = f"""
async def main(flow, args):
    async def verify():
        return await flow.crw.verify(head=args["head"], command=args["wait"], node="v")
    async def agent(name):
        return await flow.agent(args["hang"], role="executor", node=name, schema={SCHEMA!r})
    await flow.parallel({{"verify": verify(), "agent": agent("a"), "unclaimed": agent("u")}})
"""


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
        Scenario("work", _WORK, args),
        Scenario("turns", _TURNS, args, kinds=_OF_TURNS),
        Scenario("ends", _ENDS, args, kinds=frozenset({"null_model", "refused", "held", "interrupt_requested",
                                                       "interrupted"})),
        Scenario("lost", _LOST, args, faults=(die_once,), kinds=frozenset({"turn_lost"})),
        Scenario("unknown", _UNKNOWN, args, kinds=frozenset({"outcome_unknown"})),
        Scenario("cancel", _CANCEL, args, cancel="waits",
                 kinds=frozenset({"withdrawn", "cancel_waiting"})),
        Scenario("given_up", _TALK, {**args, "pause": 0}, lose_host_at="after:turn_started#2", give_up=True,
                 kinds=frozenset({"superseded", "worktree_preserved", "worktree_restored", "conversation",
                                  "checkpoint_started"})),
        Scenario("tampered", _TALK, {**args, "pause": 1.0}, lose_scheduler_at="completed", lose_scheduler_count=2,
                 tamper="once", kinds=frozenset({"fork_requested", "fork_started"})),
        Scenario("mismatch", _TALK, {**args, "pause": 1.0}, lose_scheduler_at="completed", lose_scheduler_count=2,
                 tamper="again", faults=({"method": "thread/fork", "do": "late", "seconds": 1.0, "times": 9},),
                 kinds=frozenset({"escalation"})),
        Scenario("waited_for", _PAUSED, args, lose_scheduler_at="completed", lose_host_too=True,
                 kinds=frozenset({"host_answered"})),
        Scenario("left", _LEFT, args, lose_scheduler_at="completed", lose_scheduler_count=2, keep_directories=True,
                 kinds=frozenset({"own_directory_kept"})),
        Scenario("held", _HELD, args, lose_scheduler_at="held", kinds=frozenset({"hold_cleared"})),
        Scenario("failing", _FAILING, args, kinds=frozenset({"ending"})),
        Scenario("recovered", _RECOVERED, args, lose_host_at="before:turn_ended", recover=True,
                 kinds=frozenset({"recovery_cleared"})),
        Scenario("silent", _LOST, {**args, "done": args["build"]}, lose_host_at="after:turn_started",
                 kinds=frozenset({"waiting_for_host"})),
    ]  # fmt: skip
    return {scenario.name: scenario for scenario in named}
