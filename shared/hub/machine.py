"""The label that binds a run to this machine, when its hub is a path that no other machine has."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def machine_label() -> str:
    """`machine-` and 12 hex digits: the same for every process of this machine, and after a reboot.

    A container is a machine of its own: it has its own files even where it shares the machine's id.
    """
    return "machine-" + hashlib.sha256(_identity().encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _identity() -> str:
    try:
        machine_id = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        machine_id = ""
    in_container = any(os.path.exists(mark) for mark in _CONTAINER_MARKS)
    if machine_id and not in_container:
        return machine_id
    return f"{machine_id}/{socket.gethostname()}"
