"""What an op is, what it is given, and the registry of those this worker can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from shared.journal.append import Claim
from shared.model.rows import CallRow
from shared.model.spec import RunSpec
from workers.worktrees.mirror import Mirrors


@dataclass(frozen=True)
class OpContext:
    """What an op may know and do while it holds its claim.

    Shape:
        arguments: what `parse` made of the prepared row's arguments.
        append: writes rows and returns when they are committed: for intents, before the effect.
        note: writes observation rows, returns at once.
        node_rows: the rows of the call's node (placed, terminal rows of executor calls and of commits).
        should_stop: the word for why the op should end early (`lost`, `cancel`, `deadline`, `worker_stopped`), or None.
        may_send: whether the worker's own lease is confirmed: asked right before each effect.
        prepared_at: the prepared row's time; what the op dates its commits with.
    """

    claim: Claim
    spec: RunSpec
    arguments: Any
    append: Callable[..., object]
    note: Callable[..., object]
    node_rows: Callable[[], Sequence[CallRow]]
    should_stop: Callable[[], str | None]
    may_send: Callable[[], bool]
    host: str
    state_dir: Path
    mirrors: Mirrors
    prepared_at: datetime


@dataclass(frozen=True)
class OpResult:
    """How an op ended well.

    Shape: `output` is the JSON object that the script gets; `columns` fill plain
    columns of the completed row (`commit_sha`); `facts` go into its detail.
    """

    output: Mapping[str, Any]
    columns: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Op(Protocol):
    """One kind of effect.

    `name` is what scripts write after `flow.crw.`; its shape stands in `shared/model/ops`.
    """

    @property
    def name(self) -> str: ...

    def parse(self, arguments: Mapping[str, Any]) -> Any:
        """The arguments in the form that `run` wants.

        Raises:
            FlowError: they do not fit; the call ends `refused`.
        """
        ...

    def run(self, context: OpContext) -> OpResult:
        """Have the effect, or find that it is there already, and say what it is.

        Raises:
            CallStopped: `should_stop` said so before the effect.
            CrwError: it could not be had; the call ends `held` with the error's reason.
        """
        ...


_ops: dict[str, Op] = {}


def register(op: Op) -> None:
    """Let this worker run an op."""
    _ops[op.name] = op


def find_op(name: str) -> Op | None:
    """The op with this name, or None: this worker cannot run it."""
    return _ops.get(name)
