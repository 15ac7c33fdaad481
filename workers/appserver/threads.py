"""Threads: start, fork, resume, read, with every setting passed and every echo checked.

A fork forgets model, effort and sandbox, a cold resume the sandbox, a resume of a
loaded thread ignores what it is told. So all settings go out each time, and the
server's echo is compared before anything else happens on the thread.
Source: App Server document, "The App Server backend"; facts of the App Server, "Threads".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.errors import EchoMismatch, Refused
from workers.appserver.instructions import load_instructions
from workers.appserver.listing import walk_loaded, walk_threads
from workers.appserver.refusals import why_gone
from workers.appserver.rpc import BeforeSend, Rpc

_SANDBOX_TYPES = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
}


@dataclass(frozen=True)
class ThreadSettings:
    """What a thread is asked to be.

    Shape: `cwd` an absolute directory; `sandbox` one of the three words of a role;
    `instructions` the role's prompt; `source` the mark by which a thread is found
    again, `crw:<run>/<call>/<ordinal>`.
    """

    cwd: str
    model: str
    effort: str
    sandbox: str
    instructions: str
    source: str
    network: bool = False
    auto_compact_token_limit: int | None = None
    writable_roots: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thread:
    """A thread as the server describes it. `model` and `effort` are the pair it is configured with."""

    id: str
    model: str | None
    effort: str | None
    cwd: str
    source: str | None
    status: str
    forked_from: str | None = None
    sandbox: Mapping[str, Any] | None = None
    approval_policy: Any = None


def thread_source(run_id: str, call_id: str, ordinal: int) -> str:
    """The mark of a thread that a call creates; a call may create more than one."""
    return f"crw:{run_id}/{call_id}/{ordinal}"


def plan_params(wanted: ThreadSettings, instructions: str) -> dict[str, Any]:
    """The members that start, fork and resume share; `instructions` are the role's with the repository's."""
    config: dict[str, Any] = {
        "model_reasoning_effort": wanted.effort,
        "sandbox_workspace_write": {
            "network_access": wanted.network,
            "writable_roots": list(wanted.writable_roots),
            "exclude_slash_tmp": True,
            "exclude_tmpdir_env_var": True,
        },
        # Said here, the server writes no trust entry of its own, and what a repository has under .codex stays off.
        "projects": {wanted.cwd: {"trust_level": "untrusted"}},
    }
    if wanted.auto_compact_token_limit is not None:
        config["model_auto_compact_token_limit"] = wanted.auto_compact_token_limit
    return {
        "cwd": wanted.cwd,
        "model": wanted.model,
        "config": config,
        "sandbox": wanted.sandbox,
        "approvalPolicy": "never",
        "developerInstructions": instructions,
    }


def read_thread(result: Mapping[str, Any]) -> Thread:
    """A thread from a reply of start, fork, resume or read."""
    thread = result.get("thread") or {}
    echoed = "sandbox" in result
    return Thread(
        id=str(thread.get("id") or ""),
        model=result.get("model") if echoed else thread.get("model"),
        effort=result.get("reasoningEffort") if echoed else thread.get("reasoningEffort"),
        cwd=str((result.get("cwd") if echoed else thread.get("cwd")) or ""),
        source=thread.get("threadSource"),
        status=str((thread.get("status") or {}).get("type")),
        forked_from=thread.get("forkedFromId"),
        sandbox=result.get("sandbox"),
        approval_policy=result.get("approvalPolicy"),
    )


def find_differences(thread: Thread, wanted: ThreadSettings) -> dict[str, list[Any]]:
    """`{setting: [wanted, echoed]}` for every setting that is not as it was asked for."""
    sandbox = thread.sandbox or {}
    compared: dict[str, tuple[Any, Any]] = {
        "model": (wanted.model, thread.model),
        "effort": (wanted.effort, thread.effort),
        "cwd": (os.path.realpath(wanted.cwd), os.path.realpath(thread.cwd)),
        "approval_policy": ("never", thread.approval_policy),
        "sandbox": (_SANDBOX_TYPES[wanted.sandbox], sandbox.get("type")),
    }
    if wanted.sandbox != "danger-full-access":
        network = wanted.network and wanted.sandbox == "workspace-write"
        compared["network"] = (network, bool(sandbox.get("networkAccess")))
    if wanted.sandbox == "workspace-write":
        roots = sorted(set(sandbox.get("writableRoots") or []) - {wanted.cwd})
        compared["writable_roots"] = (sorted(wanted.writable_roots), roots)
        compared["exclude_slash_tmp"] = (True, sandbox.get("excludeSlashTmp"))
        compared["exclude_tmpdir_env_var"] = (True, sandbox.get("excludeTmpdirEnvVar"))
    return {name: [asked, echoed] for name, (asked, echoed) in compared.items() if asked != echoed}


def find_exposed(sandbox: Mapping[str, Any] | None, cwd: str, protected: Iterable[Path]) -> list[Path]:
    """Which of the `protected` directories a command in this sandbox could write to."""
    kind = (sandbox or {}).get("type")
    paths = [Path(os.path.realpath(path)) for path in protected]
    if kind == "dangerFullAccess":
        return paths
    if kind != "workspaceWrite":
        return []
    assert sandbox is not None, "it has a type"
    roots = [cwd, *(sandbox.get("writableRoots") or [])]
    if not sandbox.get("excludeSlashTmp"):
        roots.append("/tmp")
    if not sandbox.get("excludeTmpdirEnvVar") and os.environ.get("TMPDIR"):
        roots.append(os.environ["TMPDIR"])
    opened = [Path(os.path.realpath(root)) for root in roots]
    return [path for path in paths if any(path.is_relative_to(root) or root.is_relative_to(path) for root in opened)]


def _params(wanted: ThreadSettings) -> dict[str, Any]:
    return plan_params(wanted, load_instructions(wanted.instructions, wanted.cwd))


class Threads:
    """The threads of one connection. `loaded` takes the id of each thread that the server has in memory."""

    def __init__(self, rpc: Rpc, loaded: set[str]) -> None:
        self._rpc = rpc
        self._loaded = loaded

    def start(self, wanted: ThreadSettings, before_send: BeforeSend | None = None) -> Thread:
        """Make a persistent thread. Its first turn is sent directly, never after a resume.

        Raises:
            EchoMismatch: it exists with other settings; `facts["thread"]` is it.
            NotSent, Refused, AnswerLost.
        """
        params = {**_params(wanted), "ephemeral": False, "threadSource": wanted.source}
        return self._make("thread/start", params, wanted, before_send)

    def fork(
        self, thread_id: str, last_turn_id: str, wanted: ThreadSettings, before_send: BeforeSend | None = None
    ) -> Thread:
        """Make a thread that begins with another's turns up to and with `last_turn_id`. Raises as `start` does."""
        origin = {"threadId": thread_id, "lastTurnId": last_turn_id, "excludeTurns": True, "ephemeral": False}
        params = {**_params(wanted), **origin, "threadSource": wanted.source}
        return self._make("thread/fork", params, wanted, before_send)

    def resume(
        self,
        thread_id: str,
        wanted: ThreadSettings,
        before_send: BeforeSend | None = None,
        *,
        any_directory: bool = False,
    ) -> Thread:
        """Load a thread that has had a turn, or listen to a loaded one. Raises as `start` does, and ThreadBusy.

        Args:
            any_directory: a loaded thread may stand in another directory: each of its turns says where it runs.
        """
        params = {**_params(wanted), "threadId": thread_id, "excludeTurns": True}
        return self._make("thread/resume", params, wanted, before_send, any_directory)

    def read(self, thread_id: str) -> Thread:
        """The thread with its configured pair; no turns. Raises ThreadMissing, NotSent, Refused, AnswerLost."""
        return read_thread(self._rpc.request("thread/read", {"threadId": thread_id, "includeTurns": False}))

    def release(self, thread_id: str) -> None:
        """Hear no more of a thread. Its turns run on, and the server keeps it loaded."""
        self._rpc.request("thread/unsubscribe", {"threadId": thread_id})

    def archive(self, thread_id: str) -> None:
        """Put a thread aside: it can be read, and neither resumed nor forked. Raises NotSent, Refused, AnswerLost."""
        self._rpc.request("thread/archive", {"threadId": thread_id})

    def delete(self, thread_id: str) -> None:
        """Remove a thread with its rollout for good; one that is gone already is no error.

        Raises:
            Refused: a fork of it is there. NotSent, AnswerLost.
        """
        try:
            self._rpc.request("thread/delete", {"threadId": thread_id})
        except Refused as error:
            if why_gone(error) != "thread_missing":
                raise

    def list_ids(self, cwd: str) -> list[str]:
        """The threads that may stand at a directory: those in the server's memory, and those listed there.

        A thread is listed from its own first turn on; before it the memory of the server that made it has it.

        Raises:
            NotSent, Refused, AnswerLost.
        """
        found = [str(entry["id"]) for entry in walk_threads(self._ask, cwd=cwd)]
        return list(dict.fromkeys([*found, *walk_loaded(self._ask)]))

    def _ask(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        return self._rpc.request(method, params)

    def _make(
        self,
        method: str,
        params: Mapping[str, Any],
        wanted: ThreadSettings,
        before_send: BeforeSend | None,
        any_directory: bool = False,
    ) -> Thread:
        thread = read_thread(self._rpc.request(method, params, before_send=before_send))
        self._loaded.add(thread.id)
        differences = find_differences(thread, wanted)
        if any_directory:
            differences.pop("cwd", None)
        if differences:
            names = ", ".join(
                f"{name} {echoed!r} instead of {asked!r}" for name, (asked, echoed) in differences.items()
            )
            mismatch = EchoMismatch(f"{method} took the thread with {names}", thread=thread, differences=differences)
            if not {"model", "effort"} & set(differences):
                mismatch.reason = "settings_refused"
            raise mismatch
        return thread
