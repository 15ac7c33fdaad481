"""What a turn is sent with: a packet on record in its intent, and the text made of it.

The record has no prompt, which the `prepared` row has; so a turn that was not delivered
is sent again from the journal alone, word for word.
Source: definition of packets; journal document, "Held calls".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model import packets
from shared.model.call_state import SentTurn
from workers.call.context import AgentCall


@dataclass(frozen=True)
class Input:
    """Shape: `packet` what the intent records, its `kind` one of task, prompt, repair, continue."""

    packet: Mapping[str, Any]
    repair: bool = False

    def render(self, call: AgentCall) -> str:
        """The text that the model reads, without its marker line."""
        kind = self.packet["kind"]
        if kind == "prompt":
            return call.prompt
        if kind == "task":
            return packets.task(call.prompt, kept=self.packet.get("kept", ())).render()
        if kind == "repair":
            return packets.repair(self.packet["errors"]).render()
        return packets.go_on(self.packet["reason"]).render()


def first_input(call: AgentCall, kept: Sequence[str]) -> Input:
    """The call's own input: what a conversation that goes on is told next, or the task of a new one."""
    return Input({"kind": "prompt"} if call.continues else {"kind": "task", "kept": list(kept)})


def repair_input(errors: Sequence[str]) -> Input:
    """The one repair turn."""
    return Input({"kind": "repair", "errors": list(errors)}, repair=True)


def continue_input(reason: str) -> Input:
    """A turn that was stopped goes on; an ordinary turn, whatever it was that stopped."""
    return Input({"kind": "continue", "reason": reason})


def recorded_input(call: AgentCall, sent: SentTurn) -> Input:
    """What a turn was sent with, to be sent once more because it was not delivered."""
    if sent.packet is None:
        return first_input(call, ())
    return Input(sent.packet, sent.repair)
