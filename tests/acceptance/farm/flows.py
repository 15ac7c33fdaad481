"""The scripts that the farm's tests run."""

LANES = """
async def main(flow, args):
    flow.phase("lanes")

    async def lane(name):
        total = 0
        for step in range(args["steps"]):
            done = await flow.crw.noop(value=step, seconds=args.get("seconds", 0), node=args.get("nodes") and name)
            total += done.require()["value"]
        return total

    return await flow.parallel({f"lane{n}": lane(f"lane{n}") for n in range(args["lanes"])})
"""

WIDE = """
async def main(flow, args):
    async def one(n):
        return (await flow.crw.noop(value=n, seconds=args.get("seconds", 0))).require()["value"]
    results = await flow.parallel({str(n): one(n) for n in range(args["count"])})
    return sum(results.values())
"""
