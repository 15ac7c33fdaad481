"""Commits of the farm are functions of journal rows: the same request makes the same commit on every host.

Author and committer come from the run's spec, both dates from the call's `prepared`
row in whole seconds UTC, and the trailers name run, call and request. So a repeated
effect is recognised by its id. Source: rules of the protocol, 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shared.hub.git import Git

REQUEST_TRAILER = "Crw-Request"


@dataclass(frozen=True)
class Stamp:
    """Whose commit it is and when: all from rows."""

    name: str
    email: str
    at: datetime

    def environment(self) -> dict[str, str]:
        """Author and committer for git."""
        seconds = int(self.at.astimezone(UTC).timestamp())
        values = {"NAME": self.name, "EMAIL": self.email, "DATE": f"@{seconds} +0000"}
        return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in values.items()}


def with_trailers(message: str, run_id: str, call_id: str, request_id: str) -> str:
    """The message with the trailers that say which request made the commit."""
    return f"{message.strip()}\n\nCrw-Run: {run_id}\nCrw-Call: {call_id}\n{REQUEST_TRAILER}: {request_id}\n"


def make_commit(git: Git, repository: Path, tree: str, parents: Sequence[str], message: str, stamp: Stamp) -> str:
    """Write a commit object; nothing points to it yet."""
    arguments = [word for parent in parents for word in ("-p", parent)]
    # A model can write half a character in JSON; no row can fail for what it wrote.
    text = message.encode("utf-8", "replace")
    return git.run(repository, "commit-tree", tree, *arguments, "-F", "-", input=text, env=stamp.environment()).line


def tree_of(git: Git, repository: Path, commit: str) -> str:
    """The tree of a commit."""
    return git.run(repository, "rev-parse", "--verify", f"{commit}^{{tree}}").line
