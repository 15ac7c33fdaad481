"""What names a run: its id, or what a submit gave back.

Source: journal document, "Persistence".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Submitted:
    """A submitted run. Shape: `created` is false when the key already had this very run; `str()` is the run id."""

    run_id: str
    key: str
    created: bool

    def __str__(self) -> str:
        return self.run_id


Run = Submitted | str
