"""How a cell ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.drill.invariants import Findings


@dataclass
class Outcome:
    """How a cell ended. `reached`: its fault has struck; `digest` of the run's result."""

    name: str
    reached: bool = False
    digest: str | None = None
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.reached and self.error is None and not self.findings.all

    def why(self) -> str:
        """What is wrong, in one line."""
        said = self.findings.all if self.error is None else [self.error, *self.findings.all]
        return "; ".join(said if self.reached else ["its point was never reached", *said])
