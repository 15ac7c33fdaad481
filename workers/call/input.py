"""What a turn is sent with: a packet on record in its intent, and the text made of it.

The record has no prompt, which the `prepared` row has, and no conversation, which the
`checkpoint_started` row has; so a turn that was not delivered is sent again from the
journal alone, word for word.
Source: definition of packets; journal document, "Held calls" and "The suffix".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model import packets
from shared.model.sent_turn import SentTurn


@dataclass(frozen=True)
class Input:
    """Shape: `packet` what the intent records, its `kind` one of task, prompt, checkpoint, repair, continue.

    `conversation` is the packet that a checkpoint thread is told before the call's own input.
    """

    packet: Mapping[str, Any]
    repair: bool = False
    conversation: Mapping[str, Any] | None = None

    def text(self, prompt: str) -> str:
        """The text that the model reads, without its marker line."""
        kind, kept = self.packet["kind"], self.packet.get("kept", ())
        if kind == "prompt":
            return packets.prompt(prompt, kept).render() if kept else prompt
        if kind == "task":
            return packets.task(prompt, kept=kept).render()
        if kind == "checkpoint":
            assert self.conversation is not None, "a checkpoint thread has its packet on record"
            before = packets.Packet("checkpoint", self.conversation).render()
            return before + Input(asked_now(self.packet)).text(prompt)
        if kind == "repair":
            return packets.repair(self.packet["errors"]).render()
        return packets.go_on(self.packet["reason"]).render()


def first_input(kept: Sequence[str], *, continues: bool, conversation: Mapping[str, Any] | None = None) -> Input:
    """The call's own input: what a conversation that goes on is told next, or the task of a new one.

    Args:
        conversation: what a thread that takes the place of another is told before it.
    """
    if conversation is not None:
        return Input({"kind": "checkpoint", "kept": list(kept)}, conversation=conversation)
    if continues:
        return Input({"kind": "prompt", **({"kept": list(kept)} if kept else {})})
    return Input({"kind": "task", "kept": list(kept)})


def repair_input(errors: Sequence[str]) -> Input:
    """The one repair turn."""
    return Input({"kind": "repair", "errors": list(errors)}, repair=True)


def continue_input(reason: str) -> Input:
    """A turn that was stopped goes on; an ordinary turn, whatever it was that stopped."""
    return Input({"kind": "continue", "reason": reason})


def retold_input(given: Input, kept: Sequence[str], conversation: Mapping[str, Any]) -> Input:
    """The same input to a new thread, which is told first what was said before it."""
    packet = given.packet
    asked = {"reason": packet["reason"]} if packet["kind"] == "continue" else {"kept": list(kept)}
    return Input({"kind": "checkpoint", **asked}, conversation=conversation)


def asked_now(packet: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a thread that was told of its conversation is asked behind that: to carry on, or the call's own prompt."""
    if "reason" in packet:
        return {"kind": "continue", "reason": packet["reason"]}
    return {"kind": "prompt", "kept": packet.get("kept", ())}


def recorded_input(sent: SentTurn, *, continues: bool, conversation: Mapping[str, Any] | None) -> Input:
    """What a turn was sent with, to be sent once more because it was not delivered."""
    if sent.packet is None:
        return first_input((), continues=continues, conversation=conversation)
    return Input(sent.packet, sent.repair, conversation if sent.packet["kind"] == "checkpoint" else None)
