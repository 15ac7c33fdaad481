"""What a refusal of the server says about a thread. Pure.

Source: facts of the App Server, "Threads" and "thread/fork".
"""

from __future__ import annotations

import re

from shared.base.errors import Refused

# How the server says that there is nothing to go on in: the texts are all that tells these refusals apart.
_GONE = (
    ("thread_missing", re.compile(r"no rollout found for thread id|thread not loaded: |thread not found: ")),
    ("thread_missing", re.compile(r"rollout at .* is empty")),
    ("thread_archived", re.compile(r"session \S+ is archived")),
    ("turn_missing", re.compile(r"turn not found: |identifies an in-progress turn")),
)


def why_gone(refusal: Refused) -> str | None:
    """Why a thread can be neither resumed nor forked, as the server's refusal says; None for any other refusal."""
    return next((word for word, said in _GONE if said.search(str(refusal))), None)
