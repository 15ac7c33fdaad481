"""The flows of the drill: small, and together they write every row kind that the engine can write.

A flow's result holds nothing that may differ between two runs of it: no commit id, no
time. What its models do to files can be done twice with one outcome, since a turn that
was cut by a death goes on and may do it again.
"""

from __future__ import annotations

import json
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


def say(summary: str) -> dict[str, Any]:
    """The step that answers with this summary."""
    return {"out": [{"msg": json.dumps({"summary": summary}), "phase": "final_answer"}]}


def write(name: str, text: str) -> dict[str, Any]:
    """The step that writes a file, the same one however often."""
    return {"out": [{"exec": f"printf {text} > {name}"}]}


def prompt(text: str, *steps: dict[str, Any]) -> str:
    """A prompt that tells the scripted model what to do."""
    return f"{text}\n[[steps:{json.dumps(list(steps))}]]"


WORK = f"""
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

TURNS = f"""
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

ENDS = f"""
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

LOST = f"""
async def main(flow, args):
    return (await flow.agent(args["done"], role="executor", node="n", schema={SCHEMA!r}))["summary"]
"""

UNKNOWN = f"""
async def main(flow, args):
    first = await flow.agent(args["vanish"], role="executor", node="n", schema={SCHEMA!r})
    second = await flow.agent(args["done"], role="executor", node="n", schema={SCHEMA!r})
    third = await flow.agent(args["done"], role="reviewer", schema={SCHEMA!r})
    return [first.status, second.status, second.reason, third.status]
"""

RECOVERED = f"""
async def main(flow, args):
    return (await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})).status
"""

TALK = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    flow.log("mended")
    return [built["summary"], mended.status, mended.reason, mended.output]
"""

TAKEN_OVER = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    flow.log("built")
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    return [built["summary"], mended["summary"]]
"""

LEFT = f"""
async def main(flow, args):
    said = await flow.agent(args["done"], role="reviewer", schema={SCHEMA!r})
    # A conversation that reads another head has a directory of its own for it.
    told = await said.call(args["done"], head=args["head"], schema={SCHEMA!r})
    flow.log("told")
    again = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    return [said["summary"], told["summary"], again["summary"]]
"""

HELD = f"""
async def main(flow, args):
    held = await flow.agent(
        args["hang"], role="executor", node="h", schema={SCHEMA!r}, deadline=args["deadline"]
    )
    flow.log("held")
    return [held.status, held.reason]
"""

FAILING = """
import asyncio

async def main(flow, args):
    asyncio.create_task(flow.crw.verify(head=args["head"], command=args["wait"], node="v"))
    await asyncio.sleep(0.5)
    raise ValueError("a fault of the script's own")
"""

CANCEL = f"""
async def main(flow, args):
    async def verify():
        return await flow.crw.verify(head=args["head"], command=args["wait"], node="v")
    async def agent(name):
        return await flow.agent(args["hang"], role="executor", node=name, schema={SCHEMA!r})
    await flow.parallel({{"verify": verify(), "agent": agent("a"), "unclaimed": agent("u")}})
"""
