"""`flow.crw.verify`: does a command succeed on a commit?

It runs as `sh -c` in a private checkout, after the run's `setup` command, on an
allow-listed environment, and may leave what it likes: the checkout is removed.
`ran` false says that no verdict was reached (setup failed, no such command); a
command that ran and failed, or passed its deadline, is a verdict.
Source: journal document, "Other effects"; rules of the protocol, 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.command import Ended
from shared.base.errors import FlowError
from shared.hub.refs import branch_ref, read_ref
from shared.model.ops import parse_arguments
from shared.model.rows import NewCallRow
from workers.claim import CallStopped
from workers.ops.checkout import private_checkout
from workers.ops.failed_tests import PROFILES, clean_text, failed_step, last_words, pick_profile
from workers.ops.op import OpContext, OpResult
from workers.ops.rights import announce
from workers.worktrees.setup import read_tail, run_shell

LOG_LIMIT_BYTES = 8 << 20
_JOB = "verify"
_NO_SUCH_COMMAND = (126, 127)
_NAMED_TESTS = 20

KeepLog = Callable[[bytes], str]
"""Stores a log and returns its digest."""


@dataclass(frozen=True)
class _Step:
    """One command of a verification. `ended` is None for one that was skipped after a failure."""

    name: str
    command: str
    profile: str | None
    timeout_seconds: float
    ended: Ended | None = None
    log: bytes = b""

    @property
    def status(self) -> str:
        if self.ended is None:
            return "skipped"
        return "passed" if self.ended.exit_status == 0 else "failed"

    def entry(self) -> dict[str, Any]:
        return {
            "job": _JOB,
            "step": self.name,
            "command": self.command,
            "status": self.status,
            "exit_status": self.ended.exit_status if self.ended else None,
            "seconds": round(self.ended.seconds, 3) if self.ended else 0.0,
        }


class Verify:
    """Runs a command on a head. `keep_log` stores what it said."""

    name = "verify"

    def __init__(self, keep_log: KeepLog) -> None:
        self._keep_log = keep_log

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        parsed = parse_arguments(self.name, arguments)
        if parsed.get("profile") not in (None, *PROFILES):
            raise FlowError(f"verify: there is no profile {parsed['profile']!r}; use one of {', '.join(PROFILES)}")
        return parsed

    def run(self, context: OpContext) -> OpResult:
        head, claim = context.arguments["head"], context.claim
        mirror = context.mirrors.ensure(context.spec.hub, claim.run_id, [head])
        facts: dict[str, Any] = {
            "head": head,
            "base": _branched_off(context, mirror),
            "command": context.arguments["command"],
        }
        announce(context, NewCallRow("command_started", facts))
        with private_checkout(context, head) as checkout:
            steps = _run_steps(context, checkout)
        decisive = next((step for step in steps if step.status == "failed"), steps[-1])
        facts["log_digest"] = self._keep_log(decisive.log)
        context.note(
            NewCallRow("command_ended", {"steps": [step.entry() for step in steps], "log_digest": facts["log_digest"]})
        )
        output = _output(steps, decisive, facts["log_digest"])
        # The proof reads the row alone: one that could not run is asked again.
        facts["ran"] = output["ran"]
        return OpResult(output, {"commit_sha": head}, facts)


def _branched_off(context: OpContext, mirror: Path) -> str | None:
    """Where the head left the integration tip: its acceptance is judged on that same base."""
    git, spec, run = context.mirrors.git, context.spec, context.claim.run_id
    tip = read_ref(git, spec.hub, branch_ref(spec.target_branch(run))) or spec.base
    context.mirrors.ensure(spec.hub, run, [tip])
    return git.run(mirror, "merge-base", context.arguments["head"], tip, check=False).line or None


def _run_steps(context: OpContext, checkout: Path) -> list[_Step]:
    """Setup, then the command, each only while nothing failed.

    Raises:
        CallStopped: the call was told to end; there is no verdict.
    """
    spec = context.spec
    done: list[_Step] = []
    log = checkout.with_name(checkout.name + ".log")
    planned = [
        _Step("command", context.arguments["command"], context.arguments.get("profile"), spec.verify_timeout_seconds)
    ]
    if spec.setup:
        planned.insert(0, _Step("setup", spec.setup, "plain", spec.setup_timeout_seconds))
    for step in planned:
        if any(earlier.status == "failed" for earlier in done):
            done.append(step)
            continue
        try:
            ended = run_shell(step.command, checkout, log, step.timeout_seconds, context.should_stop)
            if ended.stopped:
                raise CallStopped(context.should_stop() or "lost")
            said = read_tail(log, LOG_LIMIT_BYTES)
        finally:
            log.unlink(missing_ok=True)
        done.append(_Step(step.name, step.command, step.profile, step.timeout_seconds, ended, said))
    return done


def _output(steps: list[_Step], decisive: _Step, log_digest: str) -> dict[str, Any]:
    ended = steps[-1].ended
    could_run = ended is not None and ended.exit_status not in _NO_SUCH_COMMAND
    failed = []
    if decisive.status == "failed":
        text = clean_text(decisive.log)
        failed.append(failed_step(_JOB, decisive.name, text, pick_profile(decisive.profile, text)))
    return {
        "passed": could_run and decisive.status == "passed",
        "ran": could_run,
        "exit_status": ended.exit_status if ended else None,
        "summary": _summary(decisive, failed),
        "steps": [step.entry() for step in steps],
        "failed_tests": failed,
        "log_digest": log_digest,
    }


def _summary(step: _Step, failed: list[dict[str, Any]]) -> str:
    """What a person or the next turn should read: how it ended, which tests failed, its last words."""
    assert step.ended is not None
    what = "setup" if step.name == "setup" else f"`{step.command}`"
    how = f"ended with status {step.ended.exit_status}"
    if step.ended.timed_out:
        how = f"passed its deadline of {step.timeout_seconds:.0f} s"
    elif step.ended.exit_status == 0:
        how = "passed"
    lines = [f"{what} {how} after {step.ended.seconds:.1f} s"]
    for entry in failed:
        named = entry["tests"] or entry["packages"]
        if named:
            more = f" and {len(named) - _NAMED_TESTS} more" if len(named) > _NAMED_TESTS else ""
            lines.append("failed: " + ", ".join(named[:_NAMED_TESTS]) + more)
        lines.append(entry["tail"])
    return "\n".join(lines) if failed else "\n".join([*lines, last_words(clean_text(step.log))]).rstrip()
