"""The thread of a call: made, forked or loaded again, and its pair read back before any turn.

Source: App Server document, "The App Server backend"; journal document, "The suffix";
settled conflicts of thread settings.
"""

from __future__ import annotations

from pathlib import Path

from shared.base.errors import Refused
from shared.model.outcome import PAIR_REFUSED
from shared.model.rows import NewCallRow
from workers.appserver import AppServerConnection, Thread, ThreadSettings, find_exposed, thread_source
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.call.directory import Place
from workers.call.fork import fork_thread, take_fork


class PairRefused(Exception):
    """The thread is not what was asked for. `thread` is None when it was never made."""

    def __init__(self, reason: str, sentence: str, thread: Thread | None) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.thread = thread


def open_thread(
    desk: Desk,
    call: AgentCall,
    place: Place,
    connection: AppServerConnection,
    *,
    ordinal: int = 1,
    stored: str | None = None,
    fork: bool = False,
) -> Thread:
    """The thread that the call's turns go to, with the pair it is configured with.

    Args:
        ordinal: the number of the thread among those this call asks for, when one is made.
        stored: the thread to load again, one that has had a turn; None makes a thread.
        fork: make it of the conversation that the call continues.

    Writes: `thread_requested` or `fork_requested` before the request; `thread_started` or `fork_started`.

    Raises:
        PairRefused: the provider has no such pair, the server took the thread with other settings, or
            the fork is not what was asked for.
        NotSent, Refused, AnswerLost.
    """
    wanted = plan_settings(call, place.path, ordinal)
    forked = fork and not stored
    try:
        desk.send(lambda: connection.check_pair(wanted.model, wanted.effort))
        if stored:
            thread = _load(desk, stored, wanted, connection, any_directory=not call.executes)
        elif fork:
            thread = _fork(desk, call, wanted, connection, ordinal)
        else:
            thread = _make(desk, wanted, connection)
    except Refused as error:
        if error.reason not in (PAIR_REFUSED, "settings_refused", "fork_refused"):
            raise
        made: Thread | None = error.facts.get("thread")
        if made is not None:
            desk.note(_started(made, connection, wanted, forked))
        raise PairRefused(error.reason, str(error), made) from error
    desk.note(_started(thread, connection, wanted, forked))
    configured = desk.send(lambda: connection.threads.read(thread.id))
    if (configured.model, configured.effort) != (wanted.model, wanted.effort):
        sentence = f"the thread is configured with {configured.model}/{configured.effort}"
        raise PairRefused(PAIR_REFUSED, f"{sentence}, not {wanted.model}/{wanted.effort}", configured)
    exposed = find_exposed(thread.sandbox, wanted.cwd, _protected(desk))
    if exposed and call.role.sandbox != "danger-full-access":
        raise PairRefused("state_dir_exposed", f"the sandbox could write to {exposed[0]}", thread)
    return thread


def plan_settings(call: AgentCall, directory: Path, ordinal: int = 1) -> ThreadSettings:
    """What a thread of the call has to be, whether it is made or loaded."""
    role, claim = call.role, call.claim
    return ThreadSettings(
        cwd=str(directory),
        model=role.model,
        effort=role.effort,
        sandbox=role.sandbox,
        instructions=role.prompt,
        source=thread_source(claim.run_id, claim.call_id, call.creations_before + ordinal),
        network=role.network,
        auto_compact_token_limit=role.auto_compact_token_limit,
    )


def _make(desk: Desk, wanted: ThreadSettings, connection: AppServerConnection) -> Thread:
    detail = {
        "source": wanted.source,
        "cwd": wanted.cwd,
        "pair": [wanted.model, wanted.effort],
        "sandbox": wanted.sandbox,
        "auto_compact_token_limit": wanted.auto_compact_token_limit,
        **desk.origin(connection).to_json(),
    }
    desk.append(NewCallRow("thread_requested", detail, input_state="not_delivered"))
    return desk.send(lambda: connection.threads.start(wanted, before_send=desk.check))


def _fork(desk: Desk, call: AgentCall, wanted: ThreadSettings, connection: AppServerConnection, ordinal: int) -> Thread:
    if ordinal > 1:
        marks = thread_source(call.claim.run_id, call.claim.call_id, 1).rpartition("/")[0] + "/"
        found = desk.send(lambda: take_fork(call, wanted, connection, marks))
        if found is not None:
            return found
    return fork_thread(desk, call, wanted, connection)


def _load(
    desk: Desk, thread_id: str, wanted: ThreadSettings, connection: AppServerConnection, *, any_directory: bool
) -> Thread:
    # Every setting goes along again: a cold thread forgets its sandbox. A loaded one ignores them and echoes its own.
    return desk.send(
        lambda: connection.threads.resume(thread_id, wanted, before_send=desk.check, any_directory=any_directory)
    )


def _started(thread: Thread, connection: AppServerConnection, wanted: ThreadSettings, forked: bool) -> NewCallRow:
    detail = {
        "thread": thread.id,
        "model": thread.model,
        "effort": thread.effort,
        "cwd": thread.cwd,
        "sandbox": dict(thread.sandbox) if thread.sandbox else None,
        "source": wanted.source,
        "generation": connection.generation,
        "codex": connection.version,
        **({"forked_from": thread.forked_from} if thread.forked_from else {}),
    }
    return NewCallRow("fork_started" if forked else "thread_started", detail, thread_id=thread.id)


def _protected(desk: Desk) -> list[Path]:
    state_dir = desk.worker.settings.state_dir
    return [state_dir / "mirrors", state_dir / "codex-home"]
