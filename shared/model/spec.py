"""What a run is: fixed at submit, stored once, read by every process that works on it.

Everything of the submitter's settings that decides what a call does (roles, setup
command, git identity) is copied in here, so a resume on another machine with
another file meets the same run. Source: journal document, "Persistence"
(identity of the run); definition of sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shared.base.canonical import digest_json
from shared.model.roles import Role

FORMAT = 1


@dataclass(frozen=True)
class RunSpec:
    """The identity of a run.

    Shape:
        workflow: the script's file name, for people.
        script: its name among `sources`.
        sources: name -> sha-256 of every file that ships with the run.
        args: the arguments, a JSON value.
        hub: URL or absolute path of the repository the run was started on.
        base: the commit (40 hex) the run starts from.
        target: the branch that `integrate` moves unless told otherwise; empty for the run's own,
            which `target_branch` names: the id must not be part of what a repeated submit is compared with.
        label: a host label the calls of the run need, or None for any host.
        roles: name -> role with its pair, sandbox and prompt.
        setup: command that prepares a fresh worktree, or None.
        max_turns: cap on the turns of the whole run, or None.
    """

    workflow: str
    script: str
    sources: Mapping[str, str]
    args: Any
    hub: str
    base: str
    target: str
    roles: Mapping[str, Role]
    label: str | None = None
    setup: str | None = None
    setup_timeout_seconds: float = 900.0
    verify_timeout_seconds: float = 3600.0
    call_deadline_seconds: float = 21600.0
    author_name: str = "crw-farm"
    author_email: str = "crw-farm@localhost"
    backend: str = "app-server"
    max_turns: int | None = None
    python: str = ""
    format: int = FORMAT
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data, as it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunSpec:
        """The spec that `to_json` gave."""
        roles = {name: Role(**role) for name, role in data["roles"].items()}
        return cls(**{**data, "roles": roles})

    def target_branch(self, run_id: str) -> str:
        """The branch that `integrate` moves when the script names none."""
        return self.target or f"crw/{run_id}"

    def digest(self) -> str:
        """What a repeated submit under the same key must equal."""
        return digest_json(self.to_json())
