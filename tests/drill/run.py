"""Run one cell: to its point, through its fault, to the run's end by another process, and look at all of it."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import Any

import psutil

from shared.base.canonical import digest_json
from shared.journal import runs
from tests.drill.cells import Boundary, Cell, Fault
from tests.drill.invariants import check_invariants
from tests.drill.mishaps import Mishaps
from tests.drill.outcome import Outcome
from tests.drill.scenarios import Scenario, make_scenarios
from tests.drill.sides import ROLES, FakeSide, RealSide, Side
from tests.drill.stage import CellFarm, Stage, app_servers
from tests.farm import Process
from tests.repositories import git
from tests.waiting import wait_until

DEADLINE_SECONDS = 60.0
_FRAME_OF = {
    "thread_requested": "thread/start",
    "fork_requested": "thread/fork",
    "turn_requested": "turn/start",
    "interrupt_requested": "turn/interrupt",
}
# How long an answer stays away, so that the fault strikes first.
_LATE_SECONDS = 1.5
_BEHIND_THE_END_SECONDS = 2.0
_GATED_HOOK = """#!/bin/sh
touch {place}/running
while [ -e {place}/gate ]; do sleep 0.02; done
"""


def run_cell(
    stage: Stage,
    scenario_name: str,
    cell: Cell | None,
    expected: str | None,
    *,
    real: bool = False,
    elsewhere: bool = False,
) -> Outcome:
    """Run a cell, or the undisturbed flow without one.

    Args:
        elsewhere: after the fault the host is given up with all that it had, and another one goes on.
    """
    name = (cell.name if cell is not None else f"undisturbed/{scenario_name}") + ("/real" if real else "")
    outcome = Outcome(name, reached=cell is None)
    started = time.monotonic()
    with stage.farm(name.replace("/", "-")) as farm:
        scenario = make_scenarios(farm.directory, stage.head)[scenario_name]
        side: Side = RealSide(farm.directory) if real else FakeSide(farm.directory)
        run = _CellRun(farm, side, scenario, cell, outcome, elsewhere=elsewhere)
        try:
            run.play(stage.head)
        except Exception as error:  # noqa: BLE001 - a cell that breaks is a cell that failed; the others go on
            outcome.error = str(error) if isinstance(error, AssertionError) else repr(error)
        finally:
            side.close()
        run.look(expected)
        if not outcome.passed:
            lines = [str(row) for row in farm.rows(run.run_id)]
            (farm.directory / "rows.txt").write_text("\n".join([outcome.why(), *lines]))
    outcome.seconds = time.monotonic() - started
    return outcome


class _CellRun:
    """One run of a scenario, with or without a fault."""

    def __init__(
        self,
        farm: CellFarm,
        side: Side,
        scenario: Scenario,
        cell: Cell | None,
        outcome: Outcome,
        *,
        elsewhere: bool = False,
    ) -> None:
        self._farm = farm
        self._elsewhere = elsewhere
        self._side = side
        self._scenario = scenario
        self._cell = cell
        self._outcome = outcome
        self._place = farm.directory
        self._cancelled = scenario.cancel is None
        self._mishaps = Mishaps(farm, scenario, wipe=elsewhere)
        self._over_at: float | None = None
        self.run_id = ""

    def play(self, head: str) -> None:
        """From the first process to the run's end.

        Raises:
            AssertionError: something was waited for in vain.
        """
        self._prepare()
        self._scheduler = self._start("scheduler", "s1")
        self._worker = self._start("worker", "h1")
        self.run_id = self._farm.submit(
            self._scenario.script, dict(self._scenario.args), hub=str(self._farm.hub), base=head, roles=ROLES
        )
        if self._scenario.lose_host_at is not None:
            wait_until(lambda: self._worker.stopped, DEADLINE_SECONDS, "the host to be lost")
            self._worker.kill()
            self._mishaps.lose_host(self.run_id)
            if self._scenario.give_up:
                self._worker = self._start("worker", "h2")
        try:
            wait_until(self._step, DEADLINE_SECONDS, "the run to finish")
        finally:
            self._mishaps.close()

    def look(self, expected: str | None) -> None:
        """Check everything there is to see."""
        farm, outcome = self._farm, self._outcome
        rows = farm.rows(self.run_id)
        outcome.digest = self._digest()
        outcome.findings = check_invariants(
            rows,
            open_calls=farm.unsettled(self.run_id),
            frames=self._side.frames(),
            asked=self._side.asked(),
            hub=farm.hub,
            digest=outcome.digest,
            expected=expected,
        )

    def _prepare(self) -> None:
        """The faults and gates that stand from the start."""
        cell = self._cell
        faults = list(self._scenario.faults)
        if cell is not None and cell.boundary is Boundary.SENT:
            if cell.word in _FRAME_OF:
                faults.append({"method": _FRAME_OF[cell.word], "do": "late", "seconds": _LATE_SECONDS, "once": True})
            else:
                (self._place / "gate").touch()
            if cell.word == "push_requested":
                hook = self._farm.hub / "hooks" / "post-receive"
                hook.parent.mkdir(exist_ok=True)
                hook.write_text(_GATED_HOOK.format(place=self._place))
                hook.chmod(0o755)
        self._side.strike(*faults)

    def _start(self, role: str, name: str, *, again: bool = False) -> Process:
        settings: dict[str, Any] = {**self._side.settings(), "concurrency": 2} if role == "worker" else {}
        if self._scenario.keep_directories:
            settings["keep_directories"] = 1
        cell = self._cell
        lost = self._mishaps.lost
        if role == "worker" and not lost and self._scenario.lose_host_at is not None:
            settings["stop_at"] = self._scenario.lose_host_at
        elif role == "scheduler" and not lost and self._scenario.lose_scheduler_at is not None:
            settings["stop_at"] = self._scenario.lose_scheduler_at
        elif cell is not None and cell.point is not None and cell.victim == role and not again:
            settings["cut_at" if cell.fault is Fault.CUT else "stop_at"] = cell.point
        if role == "worker":
            return self._farm.start_worker(name, **settings)
        return self._farm.start_scheduler(name, **settings)

    # -- while it runs ---------------------------------------------------------------------------

    def _step(self) -> bool:
        """One look; whether the run has ended."""
        self._cancel_if_due()
        if self._scenario.lose_scheduler_at is None or self._mishaps.lost:
            self._strike_if_due()
        elif self._scheduler.stopped:
            self._scheduler.kill()
            if self._scenario.lose_host_too:
                self._worker.kill()
            self._mishaps.lose_scheduler(self.run_id)
            self._scheduler = self._start("scheduler", "s2")
        self._mishaps.look(self.run_id)
        loses_host = self._scenario.lose_host_at is not None or (self._scenario.lose_host_too and self._mishaps.lost)
        if loses_host and not self._worker.alive and self._host_may_return():
            self._worker = self._start("worker", "h1", again=not self._scenario.recover)
        state = runs.run_state(self._farm.database, self.run_id)
        ended = state is not None and state.state == "ended"
        if not ended or (self._scenario.recover and not self._mishaps.is_recovered(self.run_id)):
            return False
        if self._cell is None or self._outcome.reached:
            return True
        # The point may be right behind the commit that was the last one.
        self._over_at = self._over_at or time.monotonic()
        return time.monotonic() > self._over_at + _BEHIND_THE_END_SECONDS

    def _strike_if_due(self) -> None:
        if self._cell is not None and not self._outcome.reached and self._is_reached(self._cell):
            self._outcome.reached = True
            self._strike(self._cell)

    def _host_may_return(self) -> bool:
        if self._scenario.recover:
            return True
        if self._scenario.lose_host_at and self._cell is not None and self._cell.boundary is not Boundary.NEXT:
            return self._outcome.reached
        return any(getattr(row, "kind", None) == "waiting_for_host" for row in self._farm.rows(self.run_id))

    def _cancel_if_due(self) -> None:
        if self._cancelled or not (self._place / str(self._scenario.cancel)).exists():
            return
        if self._farm.call_rows(self.run_id, "turn_started"):
            self._cancelled = True
            runs.set_stop(self._farm.database, self.run_id, "cancel")

    @property
    def _victim(self) -> Process:
        assert self._cell is not None
        return self._worker if self._cell.victim == "worker" else self._scheduler

    def _is_reached(self, cell: Cell) -> bool:
        if cell.boundary is not Boundary.SENT:
            return self._victim.said("CRW_CUT_AT at ") if cell.fault is Fault.CUT else self._victim.stopped
        if cell.word in _FRAME_OF:
            return any(frame.method == _FRAME_OF[cell.word] for frame in self._side.frames())
        return (self._place / "running").exists()

    def _strike(self, cell: Cell) -> None:
        """The fault, and whoever goes on after it."""
        victim = self._victim
        if cell.fault is Fault.KILL:
            victim.kill()
            self._replace(victim)
        elif cell.fault is Fault.CUT:
            if cell.point is None:
                self._farm.cut(victim)
        elif cell.fault is Fault.SERVER:
            for server in app_servers(self._worker):
                with suppress(psutil.NoSuchProcess):
                    server.kill()
            victim.signal(signal.SIGCONT)
        else:
            self._expire(victim)
        if self._elsewhere:
            self._move_host()
        (self._place / "gate").unlink(missing_ok=True)

    def _move_host(self) -> None:
        """The host is gone with everything on its disk; it is given up, and another one is there."""
        host = self._worker.name.removeprefix("worker-")
        for server in app_servers(self._worker):
            with suppress(psutil.NoSuchProcess):
                server.kill()
        self._worker.kill()
        self._mishaps.give_up_host(host)
        self._worker = self._start("worker", f"h{int(host.removeprefix('h')) + 1}", again=True)

    def _expire(self, victim: Process) -> None:
        """Freeze a process until it has been declared dead, then let it wake up."""
        victim.signal(signal.SIGSTOP)
        if victim is self._scheduler:
            self._start("scheduler", "s2", again=True)
        wait_until(lambda: self._farm.is_buried(victim), 20, f"{victim.name} to be declared dead")
        victim.signal(signal.SIGCONT)
        if victim is self._worker:
            victim.wait(20)
            self._replace(victim)

    def _replace(self, victim: Process) -> None:
        if victim is self._worker:
            if self._elsewhere:
                return
            self._worker = self._start("worker", victim.name.removeprefix("worker-"), again=True)
        else:
            self._scheduler = self._start("scheduler", "s2", again=True)

    def _digest(self) -> str | None:
        """Of everything the run came to: its end, its result, the tree it left on its target."""
        end = self._farm.finished(self.run_id) if self.run_id else None
        if end is None:
            return None
        target = git(self._farm.hub, "rev-parse", "-q", "--verify", f"crw/{self.run_id}^{{tree}}", check=False)
        said = {name: end.data.get(name) for name in ("status", "error_kind", "result")}
        if self._scenario.recover:
            said["recovered"] = [row.event for row in self._farm.call_rows(self.run_id) if row.attempt == 1]
        return str(digest_json({**said, "tree": target}))
