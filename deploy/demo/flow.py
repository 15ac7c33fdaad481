"""The demo's flow: an architect plans, lanes build in parallel, their commits are integrated.

It is an ordinary flow script; `crw flow start` runs it on any repository with real
models too. What stands in double brackets is read by the demo's scripted model alone.
"""

PLAN = {
    "type": "object",
    "properties": {
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "task": {"type": "string"}},
                "required": ["id", "title", "task"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["nodes"],
    "additionalProperties": False,
}
REPORT = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "files": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["summary", "files"],
    "additionalProperties": False,
}
ROUNDS = 3


async def main(flow, args):
    flow.phase("plan")
    design = await flow.agent(f"{args['goal']}\n[[script:plan]]", role="architect", schema=PLAN)
    plan = design.require()

    async def lane(node):
        name = node["id"]
        prompt = f"{node['task']}\n[[script:{name}]]"
        build = await flow.agent(prompt, role="executor", node=name, schema=REPORT)
        for _ in range(ROUNDS):
            build.require()
            head = await flow.crw.commit(node=name, message=node["title"])
            if not head["changed"]:
                raise flow.Failed(f"{name}: the agent changed nothing")
            checked = await flow.crw.verify(node=name, head=head["commit"], command=args["check"])
            if checked["passed"]:
                return head["commit"]
            prompt = f"These tests fail; mend the code:\n{checked['summary']}\n[[script:{name}-repair]]"
            build = await build.call(prompt, schema=REPORT)
        raise flow.Failed(f"{name}: still failing after {ROUNDS} rounds")

    flow.phase("build")
    heads = await flow.parallel({node["id"]: lane(node) for node in plan["nodes"]})

    flow.phase("integrate")
    merged = (await flow.crw.integrate(heads=heads)).require()
    if not merged["merged"]:
        raise flow.Failed(f"the lanes conflict in {', '.join(merged['conflicts'])}")
    whole = (await flow.crw.verify(head=merged["commit"], command=args["check"])).require()
    return {"commit": merged["commit"], "target": merged["target"], "passed": whole["passed"], "lanes": heads}
