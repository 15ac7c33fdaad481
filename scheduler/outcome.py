"""How a run ended, as its end row says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Shape: `status` the finished row's word; `error_kind`, `message` and the script's own
    `traceback` for a run that did not complete; `result` what `main` returned.
    """

    run_id: str
    status: str
    error_kind: str | None = None
    message: str | None = None
    traceback: str | None = None
    result: Any = None

    @classmethod
    def of(cls, run_id: str, end: Mapping[str, Any]) -> Outcome:
        """The outcome that an end row's data tell."""
        words = {name: end.get(name) for name in ("error_kind", "message", "traceback", "result")}
        return cls(run_id, str(end["status"]), **words)

    @property
    def ok(self) -> bool:
        """Whether the script came to its end."""
        return self.status == "completed"

    def sentence(self) -> str:
        """How the run ended, in one sentence."""
        words = end_words(self.status, self.error_kind)
        return f"run {self.run_id} {words}" + (f": {self.message}" if self.message else "")


def end_words(status: str, error_kind: str | None) -> str:
    """How a run ended; the kind of its error where the status does not say it already."""
    return f"{status} ({error_kind})" if error_kind and error_kind not in status else status
