"""`crw demo --crash`: the demo's flow again while its worker, its scheduler and a whole host die under it.

First the flow runs undisturbed. Then it runs once more on the same farm: a worker is
killed in the middle of its turns and comes back; the scheduler is killed and another
one takes the run over; a host burns down with everything on it in the middle of a turn
and is given up, and the other one goes on from what the hub has; then somebody stops
the run, looks at what a resume would do, and resumes. Both runs have to end with the same
trees. Turns are held at their first step until what has to strike them has struck.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import psutil

from deploy.demo.repository import read_tree
from deploy.demo.run import start_command
from deploy.demo.scripts import LANES
from deploy.demo.stage import HOSTS, Stage, run_on_stage
from deploy.processes import ChildDied, program
from shared.journal.read import load, load_lean
from shared.journal.runs import list_runs
from shared.model.rows import CallRow, EventRow

PLAIN, CRASHED = "farm", "farm-crash"
_STEP_SECONDS = 90.0
_BUILD, _REPAIR = "build", "repair"
# A death is noticed soon, and a run that waits for it is watched by a person.
_SETTINGS = {"lease_seconds": 3.0, "sweep_seconds": 0.5, "poll_seconds": 0.5}


def run_crash_demo(*, keep: bool = False, parent: Path | None = None, output: TextIO | None = None) -> int:
    """Run the flow undisturbed and crashed, and compare.

    Returns:
        0 both ended with the same trees, 1 they did not, 128 + the signal's number after a signal.

    Raises:
        UsageError, EmbeddedError: as `run_demo`.
    """
    sink = output or sys.stdout

    def say(text: str) -> None:
        print(text, file=sink, flush=True)

    return run_on_stage(lambda stage: _Crash(stage).play(), keep=keep, parent=parent, sink=sink, say=say, **_SETTINGS)


class _Crash:
    """The crashed run, step by step."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._say = stage.say
        self._run = ""

    def play(self) -> bool:
        """Both runs; whether they ended with the same trees."""
        self._say("\nFirst undisturbed:")
        self._crw(start_command(self._stage, PLAIN, PLAIN, "--wait"), quiet=True)
        undisturbed = self._trees(self._newest_run())
        for name, tree in undisturbed.items():
            self._say(f"    {tree}  {name}")
        self._hold_turns()
        self._say("\nAnd now with crashes:")
        self._crw(start_command(self._stage, CRASHED, CRASHED, None), quiet=True)
        self._run = self._newest_run()
        self._kill_a_worker()
        self._kill_the_scheduler()
        self._burn_a_host()
        self._stop_look_and_resume()
        crashed = self._trees(self._run)
        same = crashed == undisturbed
        self._say("\nThe trees of the crashed run:")
        for name, tree in crashed.items():
            self._say(f"    {tree}  {name}{'' if undisturbed.get(name) == tree else '  (not the same)'}")
        self._say("the same as undisturbed" if same else "NOT the same as undisturbed")
        return same

    # -- what strikes -------------------------------------------------------------------------------------

    def _kill_a_worker(self) -> None:
        self._wait_for("the builds to run", lambda: len(self._turns()) >= len(LANES))
        turns = self._turns()
        host = next(iter(turns.values()))
        self._say(f"\n- SIGKILL to the worker of host {host}, in the middle of {_count(turns, host)}")
        self._stage.laptop.kill(self._stage.children[host])
        self._stage.model.event(_BUILD).set()
        self._stage.start(host)
        self._stage.wait_for_workers(host)
        self._say("  its next incarnation looks its turns up and goes on with them in place")

    def _kill_the_scheduler(self) -> None:
        self._wait_for("the failing lane's repair to run", self._repairs)
        self._say("\n- SIGKILL to the scheduler")
        before = self._started()
        self._stage.laptop.kill(self._stage.children["scheduler"])
        self._stage.start("scheduler")
        self._wait_for("another scheduler to take the run over", lambda: self._started() > before)
        self._say("  another one took the run over: what is recorded replayed, the running turn was attached to")

    def _burn_a_host(self) -> None:
        (host,) = set(self._wait_for("the repair", self._repairs).values())
        (other,) = {*HOSTS} - {host}
        self._say(f"\n- host {host} burns down in the middle of the repair: its processes and {host}/ are gone")
        child = self._stage.children[host]
        below = psutil.Process(child.pid).children(recursive=True)
        self._stage.laptop.kill(child)
        for process in below:
            _kill(process)
        shutil.rmtree(self._stage.directory / host, ignore_errors=True)
        self._crw(["host", "lost", host, "--yes"])
        self._wait_for(f"the repair to run on host {other}", lambda: other in self._repairs().values())
        row = next(row for row in reversed(self._calls()) if row.event == "worktree_restored")
        self._say(f"  restored on host {other} from the hub: tree {row.snapshot_digest}")

    def _stop_look_and_resume(self) -> None:
        self._say("\n- somebody stops the run")
        self._crw(["flow", "cancel", self._run, "--wait", "60"])
        self._crw(["flow", "explain", self._run])
        self._crw(["flow", "resume", self._run, "--plan"])
        self._stage.model.event(_REPAIR).set()
        self._crw(["flow", "resume", self._run])

    # -- what is seen -------------------------------------------------------------------------------------

    def _turns(self) -> dict[str, str]:
        """Executor calls whose turn runs now -> the host."""
        newest: dict[str, CallRow] = {}
        for row in self._calls():
            if row.role == "executor" or row.call_id in newest:
                newest[row.call_id] = row
        running = {"turn_started", "user_message_seen"}
        return {call: row.host for call, row in newest.items() if row.event in running and row.host is not None}

    def _repairs(self) -> dict[str, str]:
        """The same of calls that continue a conversation."""
        continuing = {
            row.call_id
            for row in self._calls()
            if row.event == "prepared" and (row.detail.get("context") or {}).get("kind") == "continue"
        }
        return {call: host for call, host in self._turns().items() if call in continuing}

    def _calls(self) -> list[CallRow]:
        return [row for row in load_lean(self._stage.database, self._run) if isinstance(row, CallRow)]

    def _started(self) -> int:
        rows = load_lean(self._stage.database, self._run)
        return sum(isinstance(row, EventRow) and row.kind == "started" for row in rows)

    def _newest_run(self) -> str:
        return list_runs(self._stage.database, limit=1)[0].run_id

    def _trees(self, run: str) -> dict[str, str]:
        """The tree of each lane's last commit and of the merge, by name."""
        ends = [row for row in load(self._stage.database, run) if isinstance(row, EventRow) and row.kind == "finished"]
        result: Mapping[str, Any] = ends[-1].data.get("result") or {} if ends else {}
        commits = {**(result.get("lanes") or {}), "merged": result.get("commit")}
        return {name: read_tree(self._stage.repository, commit) for name, commit in sorted(commits.items()) if commit}

    # -- how ----------------------------------------------------------------------------------------------

    def _hold_turns(self) -> None:
        """From now on builds and the repair wait at their first step."""
        scripts = self._stage.model.scripts
        for name in [name for name in scripts if name != "plan"]:
            first, *rest = scripts[name]
            assert isinstance(first, dict)
            event = _REPAIR if name.endswith("-repair") else _BUILD
            scripts[name] = [{**first, "wait_event": event}, *rest]

    def _wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        found: list[Any] = []

        def seen() -> bool:
            value = look()
            if value:
                found.append(value)
            return bool(value)

        if not self._stage.laptop.wait_until(seen, _STEP_SECONDS):
            raise ChildDied(f"waited {_STEP_SECONDS:.0f} s for {what}; the logs are in {self._stage.laptop.logs}")
        return found[0]

    def _crw(self, command: list[str], *, quiet: bool = False) -> None:
        if not quiet:
            self._say(f"\n$ {program()} {shlex.join(command)}")
        self._stage.crw(command, self._stage.directory / "log" / "commands.log" if quiet else None)


def _count(turns: Mapping[str, str], host: str) -> str:
    number = sum(where == host for where in turns.values())
    return f"{number} turn{'' if number == 1 else 's'}"


def _kill(process: psutil.Process) -> None:
    try:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(5)
    except (OSError, psutil.Error):
        return
