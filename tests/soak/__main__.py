"""`python -m tests.soak`: the load in peace, the load under faults, one digest; the report in `build/soak.json`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from deploy.embedded import Postgres
from shared.base.canonical import digest_json
from shared.base.errors import StoreError
from shared.journal.runs import run_state
from tests.databases import Databases
from tests.drill.invariants import Findings, check_invariants
from tests.drill.sides import ROLES, FakeSide
from tests.farm import ROOT, Farm
from tests.repositories import git, make_bare_hub
from tests.soak.faults import Faults
from tests.soak.load import SCRIPT, Load
from tests.soak.recovery import Recoveries, sum_up
from tests.soak.troupe import HOSTS, Troupe

REPORT = ROOT / "build" / "soak.json"
_TICK_SECONDS = 0.1
_LOOK_SECONDS = 0.5
# A call that several faults strike goes on all the same: what is looked for here is not the limit.
_CRASH_LIMIT = 1000


def main() -> int:
    """Soak; 0 when nothing was sent twice, nothing is lost and both runs came to one digest."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="how long faults strike")
    parser.add_argument("--positions", type=int, default=2000, help="at least so many calls")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the faults")
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="crw-soak-"))
    with Soak(directory, Load.of(asked.positions)) as soak:
        report = {"minutes": asked.minutes, "seed": asked.seed, **soak.run(asked.minutes * 60, asked.seed)}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))
    if report["ok"]:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"logs and repositories are kept in {directory}")
    return 0 if report["ok"] else 1


class Soak:
    """The farm of one soak and its two runs. A context manager."""

    def __init__(self, directory: Path, load: Load) -> None:
        self._directory = directory
        self._load = load
        self._stack = ExitStack()

    def __enter__(self) -> Soak:
        postgres = self._stack.enter_context(Postgres(self._directory / "postgres"))
        settings = {"worker_crash_limit": _CRASH_LIMIT, "log_level": "info"}
        farm = Farm(self._directory, postgres, Databases(postgres).make("soak"), **settings)
        self._farm = self._stack.enter_context(closing(farm))
        self._sides = {host: FakeSide(self._directory / host) for host in HOSTS}
        self._troupe = Troupe(self._farm, self._sides)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, seconds: float, seed: int) -> dict[str, Any]:
        """Both runs. Returns the report without its arguments."""
        self._troupe.start()
        peaceful, digest = self._run_in_peace()
        faults, recoveries, took, run_id, hub = self._run_under_faults(seconds, seed)
        found = self._check(run_id, hub, expected=digest)
        every = [value for values in recoveries.seconds.values() for value in values]
        ok = not found.all and not recoveries.open and faults.struck.total() > 0
        return {
            "positions": self._load.calls + 1,
            "kills": faults.struck.total(),
            "kills_by_kind": dict(sorted(faults.struck.items())),
            "restarts": self._troupe.restarts,
            "recovery_seconds": sum_up(every),
            "recovery_seconds_by_kind": {kind: sum_up(values) for kind, values in sorted(recoveries.seconds.items())},
            "not_recovered": len(recoveries.open),
            "duplicates": len(found.duplicates),
            "lost": len(found.lost),
            "findings": found.all[:20],
            "undisturbed_seconds": round(peaceful, 1),
            "seconds": round(took, 1),
            "digest": digest,
            "ok": ok,
        }

    def _run_in_peace(self) -> tuple[float, str | None]:
        run_id, hub = self._submit("peace", 0.0)
        took = self._drive(run_id, None, None, 0.0, 900.0)
        found = self._check(run_id, hub)
        assert not found.all, found.all
        return took, self._digest(run_id, hub)

    def _run_under_faults(self, seconds: float, seed: int) -> tuple[Faults, Recoveries, float, str, Path]:
        run_id, hub = self._submit("soak", seconds)
        recoveries = Recoveries(self._farm.database, run_id)
        faults = Faults(self._troupe, recoveries, seed)
        took = self._drive(run_id, faults, recoveries, seconds, 2 * seconds + 300.0)
        return faults, recoveries, took, run_id, hub

    def _submit(self, name: str, seconds: float) -> tuple[str, Path]:
        hub = make_bare_hub(self._directory / f"{name}.git", {"README.md": "hello\n"})
        spec = {"hub": str(hub), "base": git(hub, "rev-parse", "main"), "roles": ROLES, "target": f"crw/{name}"}
        return self._farm.submit(SCRIPT, self._load.args(seconds), **spec), hub

    def _drive(
        self, run_id: str, faults: Faults | None, recoveries: Recoveries | None, seconds: float, limit: float
    ) -> float:
        """Mind the farm, strike it for so many seconds, until the run has ended; how long that took."""
        started = time.monotonic()
        looked = started
        while time.monotonic() < started + limit:
            time.sleep(_TICK_SECONDS)
            self._troupe.mind()
            if faults is not None and time.monotonic() < started + seconds:
                faults.strike_if_due()
            if time.monotonic() < looked + _LOOK_SECONDS:
                continue
            looked = time.monotonic()
            if recoveries is not None:
                recoveries.look()
            if self._is_over(run_id):
                break
        self._troupe.thaw_all()
        if recoveries is not None:
            recoveries.look(ended=self._is_over(run_id))
        return time.monotonic() - started

    def _is_over(self, run_id: str) -> bool:
        try:
            state = run_state(self._farm.database, run_id)
        except StoreError:
            return False
        return state is not None and state.state in ("ended", "quarantined")

    def _check(self, run_id: str, hub: Path, expected: str | None = None) -> Findings:
        open_calls = self._farm.database.fetch(
            "select call_id from call_claims where run_id = %(run)s and state not in ('ended', 'withdrawn')",
            {"run": run_id},
        )
        return check_invariants(
            self._farm.rows(run_id),
            open_calls=[call for (call,) in open_calls],
            frames=[frame for side in self._sides.values() for frame in side.frames()],
            asked=[turn for side in self._sides.values() for turn in side.asked()],
            hub=hub,
            digest=self._digest(run_id, hub),
            expected=expected,
        )

    def _digest(self, run_id: str, hub: Path) -> str | None:
        """Of what the run came to: its end, its result, the tree on its target."""
        end = self._farm.finished(run_id)
        if end is None:
            return None
        branch = git(hub, "for-each-ref", "--format=%(refname)", "refs/heads/crw")
        tree = git(hub, "rev-parse", "-q", "--verify", f"{branch}^{{tree}}", check=False)
        said = {name: end.data.get(name) for name in ("status", "error_kind", "result")}
        return str(digest_json({**said, "tree": tree}))


if __name__ == "__main__":
    sys.exit(main())
