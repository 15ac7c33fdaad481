"""A checkout that one op has to itself, for as long as it works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from shared.base.errors import WorktreeError
from shared.base.log import get_logger
from workers.ops.op import OpContext
from workers.worktrees.allocator import call_directory, make_worktree, remove_worktree

_GONE_SECONDS = 3.0


@contextmanager
def private_checkout(context: OpContext, commit: str) -> Iterator[Path]:
    """A detached checkout at `commit`; it is gone afterwards, with whatever still ran in it.

    The fence is part of its name. What a dead holder of the same call left is removed first.

    Raises:
        WorktreeError: it cannot be made.
    """
    claim = context.claim
    git, mirror = context.mirrors.git, context.mirrors.path_of(context.spec.hub)
    own = call_directory(context.state_dir, claim.run_id, claim.call_id)
    for left in own.glob(f"{claim.kind}-f*[0-9]"):
        _remove(context, left)
    checkout = own / f"{claim.kind}-f{claim.fence}"
    try:
        make_worktree(git, mirror, checkout, commit)
        yield checkout
    finally:
        _remove(context, checkout)


def _remove(context: OpContext, checkout: Path) -> None:
    """Remove a checkout; what cannot be removed is left for `clean` and must not hide the op's own end."""
    try:
        end_processes_in(checkout)
        remove_worktree(context.mirrors.git, context.mirrors.path_of(context.spec.hub), checkout)
    except WorktreeError as error:
        get_logger().warning("checkout_left", run=context.claim.run_id, call=context.claim.call_id, error=str(error))


def end_processes_in(directory: Path) -> None:
    """Kill every process whose working directory lies in `directory`: a command's daemons outlive its group."""
    inside = os.fspath(directory)
    found = []
    for process in psutil.process_iter(["cwd"]):
        cwd = process.info["cwd"]
        if cwd is not None and (cwd == inside or cwd.startswith(inside + os.sep)):
            found.append(process)
    for process in found:
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(found, _GONE_SECONDS)
