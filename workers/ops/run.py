"""Carry a claimed op from its prepared row to its terminal row."""

from __future__ import annotations

from shared.base.canonical import canonical_bytes
from shared.base.errors import FlowError, GitError, WorktreeError
from shared.journal import read
from shared.journal.append import Claim
from shared.model.rows import NewCallRow
from workers.claim import CallStopped
from workers.ops.op import OpContext, find_op
from workers.worker import Worker
from workers.worktrees.mirror import PatientMirrors


def run_op(claim: Claim, worker: Worker) -> None:
    """Run the op that the call asks for.

    Writes: the op's own intents and observations, then `completed` with its output.

    Raises:
        FlowError, CrwError: the op was refused or failed; the caller writes the terminal row.
        CallStopped: it was told to end, also while it waited for its hub.
    """
    op = find_op(claim.kind)
    if op is None:
        raise FlowError(f"this worker does not know the op {claim.kind}")
    if claim.prepared_at is None:
        raise FlowError("the call has no prepared row")

    def should_stop() -> str | None:
        return worker.should_stop(claim)

    context = OpContext(
        claim=claim,
        spec=worker.load_spec(claim.run_id),
        arguments=op.parse(claim.prepared["arguments"]),
        append=lambda *rows: worker.writer.append(claim, *rows),
        note=lambda *rows: worker.writer.note(claim, *rows),
        node_rows=lambda: read.load_node(worker.database, claim.run_id, claim.node_id) if claim.node_id else [],
        should_stop=should_stop,
        may_send=lambda: worker.may_send(claim),
        host=worker.host,
        state_dir=worker.settings.state_dir,
        mirrors=PatientMirrors(worker.mirrors, should_stop),
        prepared_at=claim.prepared_at,
    )
    try:
        result = op.run(context)
    except (WorktreeError, GitError) as error:
        # What is stopped while the hub is away fails for that and for nothing else; a deadline leaves the hub's words.
        reason = should_stop()
        if reason in (None, "deadline"):
            raise
        raise CallStopped(reason) from error
    detail = {**result.facts, "request_id": claim.request_id, "input_digest": claim.prepared.get("input_digest")}
    output = canonical_bytes(dict(result.output))
    worker.writer.append(claim, NewCallRow("completed", detail, result=output, **result.columns))
