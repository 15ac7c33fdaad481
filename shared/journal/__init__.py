"""The journal: what has happened, what may happen, and what must never happen again.

Authority: `flow_calls` and `flow_events` hold what happened, only ever inserted,
numbered by one dense `seq` a run that becomes visible in order. `call_claims` says
who may work on a call, `flow_runs` who drives a run; each right carries a count of
the rows written under it. Everything else (outbox, progress, messages) is a hint.

When something fails: a process that dies leaves its claims and leases, which a
sweep or its host's next incarnation frees; a lost answer to a commit is settled by
sending the group again under its counts; a database that is away stops everybody
and kills nobody; a row the database refuses for its content fails alone.

`append` writes, `read` and `replay` read; `claims`, `outbox`, `hosts` and `runs`
are the tables around them; every statement stands in `queries` or, where it is a
function of the server, in the migration that makes it.
Source: journal document, "Persistence"; design of the farm, "The journal in Postgres".
"""
