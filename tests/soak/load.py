"""What the farm works on in the soak: lanes of agent calls, commits, checks and plain ops, with one possible result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.drill.flows import SCHEMA, prompt, say, write

LANES = 20
# One round of a lane: a turn that writes, a commit, a check, three reviews, fourteen plain ops.
ROUND = 20
NOOPS = 14
# Of the pause before each plain op, the share that is spent inside it, in a worker's hands.
_IN_HAND = 0.3

SCRIPT = f"""
SCHEMA = {SCHEMA!r}

async def main(flow, args):
    async def lane(n):
        seen = []
        for round in range(args["rounds"]):
            asks = args["prompts"][n][round]
            built = await flow.agent(asks["build"], role="executor", node="n" + str(n), schema=SCHEMA)
            head = await flow.crw.commit(node="n" + str(n), message="round " + str(round))
            checked = await flow.crw.verify(node="n" + str(n), head=head["commit"], command="cat *.txt")
            seen.append([built["summary"], head["tree"], checked["passed"]])
            for ask in asks["reviews"]:
                seen.append((await flow.agent(ask, role="reviewer", schema=SCHEMA))["summary"])
            for step in range(args["noops"]):
                if args["pause"]:
                    await flow.sleep(args["pause"])
                done = await flow.crw.noop(value=[n, round, step], seconds=args["seconds"])
                seen.append(done["value"])
        return [head["commit"], seen]

    lanes = await flow.parallel({{"l" + str(n): lane(n) for n in range(len(args["prompts"]))}})
    merged = await flow.crw.integrate(heads={{name: lane[0] for name, lane in lanes.items()}})
    return {{"lanes": {{name: lane[1] for name, lane in lanes.items()}}, "merged": merged["merged"]}}
"""


@dataclass(frozen=True)
class Load:
    """How much there is to do. `calls` without the last one, which brings the lanes together."""

    rounds: int

    @classmethod
    def of(cls, positions: int) -> Load:
        """At least so many calls."""
        return cls(max(1, -(-positions // (LANES * ROUND))))

    @property
    def calls(self) -> int:
        """How many calls its run makes."""
        return self.rounds * LANES * ROUND

    def args(self, seconds: float) -> dict[str, Any]:
        """The run's arguments, so that it takes about so many seconds; 0 for as fast as it goes."""
        pause = seconds / (self.rounds * NOOPS)
        prompts = [[_asks(lane, round) for round in range(self.rounds)] for lane in range(LANES)]
        return {
            "prompts": prompts,
            "rounds": self.rounds,
            "noops": NOOPS,
            "pause": round(pause * (1 - _IN_HAND), 3),
            "seconds": round(pause * _IN_HAND, 3),
        }


def _asks(lane: int, round: int) -> dict[str, Any]:
    said = f"lane {lane} round {round}"
    slow = {"before": 0.5}
    return {
        "build": prompt(f"Build {said}.", write(f"lane-{lane}.txt", f"round-{round}"), {**say(said), **slow}),
        "reviews": [prompt(f"Review {said}, {n}.", say(f"{said}, {n}")) for n in range(ROUND - NOOPS - 3)],
    }
