"""What a host found out about effects: the verdicts that the resume walk asks for.

A verdict is a function of journal rows and of what git says on the node's host; the
same rows and the same git give the same verdict. It crosses from host to scheduler
as the answer to one question, which names only what is *not* proven: a run of ten
thousand positions that are all proven has a short answer.
Source: journal document, "The proofs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.model.rows import CallRow

PROOFS = "proofs"
"""The kind of the question to a host."""


@dataclass(frozen=True)
class Verdict:
    """Whether the effect of an ended call is still there.

    Shape: `reason` a word and `sentence` the same for a person, both None when it is
    proven; `facts` the commits and trees that were compared.
    """

    proven: bool
    reason: str | None = None
    sentence: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for an answer."""
        return {"proven": self.proven, "reason": self.reason, "sentence": self.sentence, "facts": dict(self.facts)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """What `to_json` made."""
        return cls(data["proven"], data["reason"], data["sentence"], data["facts"])


PROVEN = Verdict(True)

THREAD_ACTIVE = "thread_active"
"""Why a call is held whose thread had a turn that it could not join: to go on, the thread has to be idle."""


def short(name: str | None) -> str:
    """A commit or a tree as a sentence names it."""
    return (name or "nothing")[:12]


def judge_integrate(commit: str, ref: str, tip: str | None, contained: bool | None) -> Verdict | None:
    """Why an `integrate` is not proven; None when its commit is in the target's history, however far that moved on.

    Args:
        tip: what the target is now; None when it is not there.
        contained: whether the commit is the tip or an ancestor of it; None when the hub could not be asked.
    """
    if contained:
        return None
    facts = {"commit": commit, "ref": ref, "tip": tip}
    if contained is None:
        return Verdict(False, "hub_unreachable", f"the hub cannot be asked for {ref}", facts)
    where = f"at {short(tip)} does not hold" if tip is not None else "is gone, and with it"
    return Verdict(False, "not_on_target", f"{ref} {where} the merged commit {short(commit)}", facts)


@dataclass(frozen=True)
class HeldState:
    """Whether a held call may go on in place, as far as its host knows.

    Shape: `snapshot` what its worktree holds now, None when it has none or it cannot be
    read; `in_place` whether that is the state it was held in (and its thread takes a
    turn); `reason` and `sentence` why not.
    """

    snapshot: str | None
    in_place: bool
    reason: str | None = None
    sentence: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for an answer."""
        return {
            "snapshot": self.snapshot,
            "in_place": self.in_place,
            "reason": self.reason,
            "sentence": self.sentence,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HeldState:
        """What `to_json` made."""
        return cls(data["snapshot"], data["in_place"], data["reason"], data["sentence"])


HOST_LOST = HeldState(None, False, "host_lost", "its host was given up, and with it where the call stood")
"""What is said of a held call whose host, or the directory that was its host's, is no more."""


@dataclass(frozen=True)
class NodeState:
    """A node's worktree as it is now. `head` and `snapshot` are None where they cannot be read."""

    worktree: str | None
    head: str | None
    snapshot: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain data for an answer."""
        return {"worktree": self.worktree, "head": self.head, "snapshot": self.snapshot}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeState:
        """What `to_json` made."""
        return cls(data["worktree"], data["head"], data["snapshot"])


@dataclass(frozen=True)
class Answer:
    """What a host says about all nodes of a run that it has.

    Shape: `verdicts` by call id, the unproven ones alone; `held` by call id, one for each
    call whose last event is held; `nodes` by node id.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    held: Mapping[str, HeldState] = field(default_factory=dict)
    nodes: Mapping[str, NodeState] = field(default_factory=dict)

    def verdict(self, call_id: str) -> Verdict:
        """The verdict on a call of this host."""
        return self.verdicts.get(call_id, PROVEN)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the question's answer."""
        return {
            "verdicts": {call: verdict.to_json() for call, verdict in self.verdicts.items()},
            "held": {call: state.to_json() for call, state in self.held.items()},
            "nodes": {node: state.to_json() for node, state in self.nodes.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """What `to_json` made."""
        return cls(
            {call: Verdict.from_json(verdict) for call, verdict in data["verdicts"].items()},
            {call: HeldState.from_json(state) for call, state in data["held"].items()},
            {node: NodeState.from_json(state) for node, state in data["nodes"].items()},
        )


class Prover(Protocol):
    """Who knows whether effects are still there. One for each run that is driven.

    Both questions take the rows of one call, oldest first, and may wait for a host that
    is silent, as long as it takes.
    """

    def known(self, rows: Sequence[CallRow]) -> Verdict | None:
        """What `verdict` would say, where nobody has to be asked for it any more; else None."""
        ...

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        """Whether the effect of a call that ended is still there; calls without an effect are proven."""
        ...

    async def held(self, rows: Sequence[CallRow]) -> HeldState:
        """Whether a call whose last event is held finds its worktree as it left it."""
        ...


class NothingToProve:
    """The prover of a run whose rows name no effect: a run that begins, or one of calls that only read."""

    def known(self, rows: Sequence[CallRow]) -> Verdict | None:
        """Proven: there is nothing to prove against."""
        return PROVEN

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        """Proven: there is nothing to prove against."""
        return PROVEN

    async def held(self, rows: Sequence[CallRow]) -> HeldState:
        """In place: no directory stands in the way."""
        return HeldState(None, True)
