"""The host's Codex App Server: one process that all calls of a worker share.

What is authoritative: the server, for what happened on its threads; the journal,
for what was asked of it. Nothing here writes a row; a caller appends its intent
first and then calls one function here, which sends at most one frame with an effect.

How a call uses it:

    service = AppServerService(settings, state_dir, pass_fds=(lock_fd,), before_send=check_lease)
    connection = service.connection()
    connection.check_pair(model, effort)
    thread = connection.threads.start(ThreadSettings(...))      # echo checked: EchoMismatch
    thread = connection.threads.read(thread.id)                 # the configured pair
    with connection.turns.cursor(thread.id) as cursor:          # listens before it sends
        turn_id = connection.turns.start(cursor, TurnRequest(...))
        end = cursor.wait(timeout_seconds)                      # TurnEnd, None in time, AnswerLost
        answer = pick_answer(end.items)                         # else turns.read_full(...)
        connection.turns.clean_terminals(thread.id)

The three fates of every request (`rpc`): `NotSent` may be sent again, `Refused` is
definitive, `AnswerLost` is looked up and never repeated. What can go wrong:

* the server dies: open requests and waits raise AnswerLost, `on_exit` is told, the
  next `connection()` starts a new generation, at most five within a minute;
* it grows with every thread it has loaded and unloads none: when nobody holds a
  connection and it has loaded many, the next `connection()` starts a new generation;
* it answers nothing: each request has a deadline;
* it starts with a broken configuration: SettingsError at the start;
* a turn is running where one is sent: TurnActive, thanks to the schema guard (`guard`);
* this process dies: the server dies with it, and the lock of the state directory
  that it inherited is free when both are gone.

Modules, from the outside in: `runtime`, `home`, `launch` (which program, on which
home, with which arguments); `process` (one generation); `transport` (lines), `rpc`
(answers), `refusals` (what a refusal says), `router` and `record` (events), `requests` (what the server asks);
`threads`, `turns`; `guard`, `answers`, `limits`, `transcript` (pure); `service`.
"""

from workers.appserver.answers import pick_answer
from workers.appserver.connection import AppServerConnection
from workers.appserver.guard import guard_schema, unwrap_answer
from workers.appserver.limits import TurnError, Usage
from workers.appserver.record import Progress, TurnEnd
from workers.appserver.refusals import has_no_line, why_gone
from workers.appserver.router import TurnCursor
from workers.appserver.service import AppServerService
from workers.appserver.threads import Thread, ThreadSettings, find_exposed, thread_source
from workers.appserver.transcript import make_transcript
from workers.appserver.turns import FullTurn, TurnRequest

__all__ = [
    "AppServerConnection",
    "AppServerService",
    "FullTurn",
    "Progress",
    "Thread",
    "ThreadSettings",
    "TurnCursor",
    "TurnEnd",
    "TurnError",
    "TurnRequest",
    "Usage",
    "find_exposed",
    "guard_schema",
    "has_no_line",
    "make_transcript",
    "pick_answer",
    "thread_source",
    "unwrap_answer",
    "why_gone",
]
