"""Every error the farm raises on purpose, on one page.

One sentence a message, facts as attributes. `reason` is the word that a journal
row stores. A library's error is translated once, where that library is called.
"""

from __future__ import annotations

from typing import Any


class CrwError(Exception):
    """Base of all. Shape: `str(error)` is one sentence; `reason` a word for rows; `facts` the details."""

    reason = "error"

    def __init__(self, sentence: str, **facts: Any) -> None:
        super().__init__(sentence)
        self.facts = facts


class UsageError(CrwError):
    """Bad input: the command prints the sentence and exits with status 2; nothing was written."""

    reason = "usage"


class SettingsError(UsageError):
    """A setting is missing or has a value the farm cannot use."""

    reason = "settings"


class FlowError(CrwError):
    """What a script asks wrongly; raised at the script's own line before anything is written."""

    reason = "flow_error"


class StillRunning(CrwError):
    """What was asked for exists when the run has ended, which it has not."""

    reason = "still_running"


class RunFailed(CrwError):
    """A result was asked for of a run that ended without one. Facts: status, error_kind."""

    reason = "run_failed"


# -- Postgres ------------------------------------------------------------------------------------


class StoreError(CrwError):
    """The journal's database did not do what was asked."""

    reason = "journal"


class StoreUnavailable(StoreError):
    """Postgres cannot be reached now; may be tried again."""

    reason = "store_unavailable"


class SchemaMismatch(StoreError, UsageError):
    """The database's schema version is not this program's."""

    reason = "schema_version"


class HistoryChanged(StoreError, UsageError):
    """The database is a restored or promoted one: it may give out again what was given out before."""

    reason = "history"


class RowRefused(StoreError):
    """The database itself refused one member of a group for its content (too large, not storable)."""

    reason = "row_refused"


class RightLost(StoreError):
    """The writer's claim or lease is no longer its own: it must stop, whatever it was doing."""

    reason = "right_lost"


class RunStopping(StoreError):
    """`stop` is set on the run (pause or cancel): no intent of it may commit any more."""

    reason = "run_stopping"


class BudgetSpent(StoreError):
    """The run's cap on turns is reached: the turn's intent was refused."""

    reason = "budget"


# -- the broker ----------------------------------------------------------------------------------


class BrokerUnavailable(CrwError):
    """Redis or Valkey cannot be reached now. A message may or may not have gone out."""

    reason = "broker_unavailable"


# -- git -----------------------------------------------------------------------------------------


class GitError(CrwError):
    """git refused. Facts: argv, exit_status, output (its standard error)."""

    reason = "git"


class GitTimeout(GitError):
    """git passed its deadline and was killed with its process group; what it asked of a hub may have happened."""

    reason = "git_timeout"


class NotOnHub(GitError):
    """The hub was asked for an object, and none of its refs leads there."""


class WorktreeError(CrwError):
    """A directory cannot be made, read or snapshotted: the call is held `worktree_failed`."""

    reason = "worktree_failed"


class HostUnreachable(CrwError):
    """A host did not answer in the time that was given to it. Facts: host."""

    reason = "host_unreachable"


# -- the App Server: three fates of a request ----------------------------------------------------


class HostError(CrwError):
    """Base of what the App Server side can raise."""

    reason = "host_infra"


class NotSent(HostError):
    """The request did not leave this process, or the server said it did not take it: may be sent again."""

    reason = "not_sent"


class Refused(HostError):
    """A definitive answer: the server refused the request. Facts: code, data, method."""

    reason = "refused"


class AnswerLost(HostError):
    """The request may have had its effect: look it up on the host, never send it again."""

    reason = "answer_lost"


class TurnActive(Refused):
    """turn/start met a turn that is running on the thread: nothing was sent to it. Look that turn up."""

    reason = "turn_active"


class ThreadMissing(Refused):
    """The server knows no such thread, or has not loaded it; on another home or boot this proves nothing."""

    reason = "thread_missing"


class ThreadBusy(Refused):
    """Another process has the thread's writer lock: whatever it last did may still be running."""

    reason = "thread_busy"


class EchoMismatch(Refused):
    """The server took the thread with other settings than it was asked for. Facts: thread, differences."""

    reason = "pair_refused"


class Unreadable(HostError):
    """A turn's items cannot be read in full: that is not an empty turn."""

    reason = "unreadable"
