"""What an absence on the host proves. Pure.

Source: rules of the protocol, 6; settled conflict of the acknowledged turn.
"""

from __future__ import annotations

from shared.model.origin import Origin
from shared.model.sent_turn import SentTurn
from workers.appserver import FullTurn


def is_delivered(turn: FullTurn | None) -> bool:
    """Whether the model may have been asked: the turn has its input, or ended in any way but being cut short."""
    if turn is None:
        return False
    return turn.status != "interrupted" or any(item.get("type") == "userMessage" for item in turn.items)


def why_unproven(sent: SentTurn, now: Origin, *, thread_gone: bool, low_disk: bool) -> str | None:
    """Why a turn that the host does not have may have been delivered all the same; None: it was not.

    Args:
        now: the process that looked; it has the state directory's lock.
        thread_gone: the host does not have the thread either, which a thread is allowed before its first turn.
    """
    origin = sent.origin
    if origin is None:
        return "origin_unknown"
    if sent.delivered or sent.ended is not None:
        return "turn_vanished"
    if thread_gone and not sent.first:
        return "thread_missing"
    if (origin.host, origin.home_id) != (now.host, now.home_id):
        return "other_home"
    if origin.boot_id != now.boot_id:
        return "other_boot"
    if low_disk or origin.space_mark != now.space_mark:
        return "space_alarm"
    return None
