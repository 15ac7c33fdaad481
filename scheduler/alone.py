"""A run under which two schedulers died is driven in a process of its own: it takes no other run along.

That process is a scheduler with a lease of its own and this one run, which its parent hands
over to it. When it dies too, the run is taken a third time without progress, and that is
quarantine. When the parent stops, or dies, the child gives the run back in order.
Source: rules of the protocol, 24.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from shared.base.command import die_with_parent
from shared.base.errors import UsageError
from shared.base.log import get_logger
from shared.journal.run_leases import TakenRun

OPTION = "--alone"
# Takes from dead schedulers without progress, this one included, from which on a run is driven alone.
ALONE_AT_TAKES = 2
log = get_logger()


@dataclass(frozen=True)
class Handed:
    """A run that a scheduler hands over: the lease it has it under."""

    run_id: str
    scheduler_id: str
    epoch: int

    @classmethod
    def of(cls, run: TakenRun) -> Handed:
        """What hands this run over."""
        return cls(run.run_id, run.lease.scheduler_id, run.lease.epoch)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Handed | None:
        """What a scheduler's own arguments hand over to it; None when they are none.

        Raises:
            UsageError: they are something else.
        """
        if not arguments:
            return None
        if len(arguments) != 4 or arguments[0] != OPTION or not arguments[3].isdigit():
            raise UsageError(f"a scheduler takes no arguments, and not {' '.join(arguments)!r}")
        return cls(arguments[1], arguments[2], int(arguments[3]))

    def arguments(self) -> list[str]:
        """The arguments that `parse` reads."""
        return [OPTION, self.run_id, self.scheduler_id, str(self.epoch)]


async def drive_alone(run: TakenRun) -> None:
    """Hand a run to a child process like this one and return when that has ended.

    Cancelling this coroutine has the child give the run back.
    """
    # As this process was started, module and all: its scripts may ask for the same ops.
    argv = [sys.executable, *sys.orig_argv[1:], *Handed.of(run).arguments()]
    die = partial(die_with_parent, signal.SIGTERM)
    child = await asyncio.create_subprocess_exec(*argv, preexec_fn=die)
    log.warning("driven_alone", run=run.run_id, takes=run.takes, pid=child.pid)
    try:
        status = await child.wait()
    except asyncio.CancelledError:
        child.terminate()
        await child.wait()
        raise
    log.info("alone_ended", run=run.run_id, exit_status=status)
