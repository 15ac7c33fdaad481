"""Every word a journal row can have, its class, and one line of meaning.

Two tables hold rows: `flow_calls` (rows of a call) and `flow_events` (rows of the
run and its flow). The class decides when a row is durable and what it allows:

* intent: committed alone or with a group before the effect it announces is sent;
* terminal: ends an attempt of a call, closes its claim in the same transaction;
* observation: what was seen; may wait 200 ms for the next group;
* flow and run: rows of `flow_events`.

`sends` marks the intents whose effect may outlive the worker: from such a row on a
dead worker's call is stranded on its host instead of open for everybody.
Source: journal document, "Persistence"; definition of row kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RowClass(StrEnum):
    """When a row is durable and what it means for its call."""

    INTENT = "intent"
    TERMINAL = "terminal"
    OBSERVATION = "observation"
    FLOW = "flow"
    RUN = "run"


@dataclass(frozen=True)
class RowKind:
    """One row word: `word` as stored, its class, whether it marks the claim as sent, its meaning.

    Shape: `of_flow` a word of calls that the flow has too, as an observation of either.
    """

    word: str
    row_class: RowClass
    meaning: str
    sends: bool = False
    of_flow: bool = False


def _table(*kinds: RowKind) -> dict[str, RowKind]:
    return {kind.word: kind for kind in kinds}


_I, _T, _O, _F, _R = RowClass.INTENT, RowClass.TERMINAL, RowClass.OBSERVATION, RowClass.FLOW, RowClass.RUN

ROW_KINDS: dict[str, RowKind] = _table(
    RowKind("prepared", _I, "the scheduler opened an attempt of a call: its input is on record"),
    RowKind("hold_cleared", _I, "a held attempt goes on in place: why it may, and whether its input had arrived"),
    RowKind("placed", _I, "a worker chose the call's directory: host, allocation, verified snapshot"),
    RowKind("thread_requested", _I, "thread/start is about to be sent", sends=True),
    RowKind("fork_requested", _I, "thread/fork is about to be sent: of which thread, up to which turn", sends=True),
    RowKind("turn_requested", _I, "turn/start is about to be sent", sends=True),
    RowKind("interrupt_requested", _I, "turn/interrupt is about to be sent", sends=True),
    RowKind("command_started", _I, "an op is about to run a command", sends=True),
    RowKind("push_requested", _I, "an op is about to move a ref on the hub", sends=True),
    RowKind("completed", _T, "the attempt has its result"),
    RowKind("null_model", _T, "the model gave no usable answer: output is null"),
    RowKind("refused", _T, "the attempt was refused for good: pair, policy, or the host's definitive no"),
    RowKind("held", _T, "the attempt stopped before its result and may go on in place"),
    RowKind("outcome_unknown", _T, "something was sent and what came of it cannot be proven"),
    RowKind("superseded", _T, "a resume or a lost host ended the attempt: another one takes its place"),
    RowKind("withdrawn", _T, "the run was stopped before anybody claimed the call"),
    RowKind("worktree_preserved", _O, "a node's old worktree is kept before another takes its place: the refs"),
    RowKind("worktree_restored", _O, "a node's new worktree holds a boundary: commit, tree, the verified snapshot"),
    RowKind("conversation", _O, "how a conversation goes on (same_thread, fork, checkpoint), and why so"),
    RowKind("checkpoint_started", _O, "what a new thread is told in place of a conversation: packet and digest"),
    RowKind("thread_started", _O, "the thread exists: id, pair read back, directory, generation"),
    RowKind("fork_started", _O, "the fork exists: id, source, pair read back, directory, generation"),
    RowKind("turn_started", _O, "the server took the turn"),
    RowKind("user_message_seen", _O, "the turn's input is on the server's disk"),
    RowKind("turn_ended", _O, "the turn ended: its status, usage and transcript"),
    RowKind("turn_lost", _O, "the turn provably was not delivered: the evidence, and that its input may be sent again"),
    RowKind("recovery_cleared", _O, "an unknown outcome was looked up on its host and proven: the evidence"),
    RowKind("interrupted", _O, "the interrupted turn was seen ended"),
    RowKind("escalation", _O, "something that a person should look at: the reason and the facts", of_flow=True),
    RowKind("own_directory_kept", _O, "a directory that an ended call owned cannot be removed: call, path, error"),
    RowKind("command_ended", _O, "the op's command ended: status, seconds, log"),
    RowKind("phase", _F, "the script named the phase it is in"),
    RowKind("log", _F, "the script said something"),
    RowKind("clock", _F, "the database's time that the script was given at this position"),
    RowKind("join_settled", _F, "all item paths of a join ended: the digest of their results"),
    RowKind("waiting_for_host", _F, "calls, or the proofs of a resume, wait for a host that is silent"),
    RowKind("host_answered", _F, "a host that a resume waited for said what is still there, or was given up"),
    RowKind("cancel_waiting", _F, "the cancelled run waits for the ops named here"),
    RowKind("forked", _R, "the run begins with rows of another: which run, where it was cut, and why there"),
    RowKind("started", _R, "a process began to drive the run: lineage, digests, backend"),
    RowKind("ending", _R, "the script is over and calls are still at work: how the run ends once they have ended"),
    RowKind("finished", _R, "the run ended: status, error_kind, result"),
)

TERMINAL_WORDS = frozenset(word for word, kind in ROW_KINDS.items() if kind.row_class is _T)
INTENT_WORDS = frozenset(word for word, kind in ROW_KINDS.items() if kind.row_class is _I)
SENDING_WORDS = frozenset(word for word, kind in ROW_KINDS.items() if kind.sends)
# Behind a terminal row these say that the attempt goes on: it has no result until the next one.
REOPENING_WORDS = frozenset(
    {
        "hold_cleared",
        "thread_requested",
        "fork_requested",
        "turn_requested",
        "thread_started",
        "fork_started",
        "turn_started",
        "recovery_cleared",
    }
)


def row_kind(word: str) -> RowKind:
    """The kind with this word.

    Raises:
        KeyError: no such word; a row kind that this program does not know is never skipped.
    """
    return ROW_KINDS[word]
