"""The roles an agent call can have and the sandbox each runs in.

Models are never built in: a role without one in the settings is refused at submit.
Source: App Server document, "The App Server backend"; definition of roles.
"""

from __future__ import annotations

from dataclasses import dataclass

SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
EXECUTOR_ROLES = frozenset({"executor", "executor-t1"})
BUILT_IN_ROLES = ("architect", "explorer", "executor", "executor-t1", "reviewer", "auditor", "qa")

_PROMPTS = {
    "architect": "You plan changes to a repository. Read before you propose; answer in the form you are asked for.",
    "explorer": "You look things up in a repository and report what you found, with file names.",
    "executor": "You make one change in the working directory. Edit files and run checks; never commit: the farm does.",
    "executor-t1": "You take over a change that an earlier attempt could not finish. Edit files; never commit.",
    "reviewer": "You judge a change. Say what blocks it and what does not; change nothing.",
    "auditor": "You check that what was claimed was done. Change nothing.",
    "qa": "You try the result as its user would and report what you saw. Change nothing.",
}


@dataclass(frozen=True)
class Role:
    """A role as one run uses it: fixed at submit, stored with the run.

    Shape: `model` and `effort` are the configured pair; `prompt` the role's
    instructions (the text, not a file name); `network` whether a writing sandbox may use it.
    """

    name: str
    model: str
    effort: str
    sandbox: str
    prompt: str
    auto_compact_token_limit: int | None = None
    network: bool = False

    @property
    def writes(self) -> bool:
        """Whether this role's calls work in a node's worktree."""
        return self.name in EXECUTOR_ROLES


def default_sandbox(name: str) -> str:
    """The sandbox of a role that the settings do not name: executors may write their worktree, others read."""
    return "workspace-write" if name in EXECUTOR_ROLES else "read-only"


def default_prompt(name: str) -> str:
    """The built-in instructions of a role; empty for a role of the user's own."""
    return _PROMPTS.get(name, "")
