"""The farm as SQLAlchemy sees it: who exists, who may work on a call, what waits to be claimed.

`call_claims` says who may work on a call now; `outbox` what nobody has claimed yet;
`node_placements` where a node's worktree lies; `host_questions` what a host is asked;
`run_cleaners` who removes what an ended run left; `call_progress` is a hint; `server_generations` and
`host_limits` tell people what a host has run and has left.
Source: design of the farm, "The journal in Postgres".
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Table,
    Text,
    text,
)

from shared.journal.columns import (
    METADATA,
    big_column,
    host_column,
    int_column,
    optional_texts,
    text_column,
    time_column,
)

farm_meta = Table(
    "farm_meta",
    METADATA,
    Column("one", Boolean, primary_key=True),
    int_column("schema_version"),
    int_column("min_writer"),
    text_column("system_id"),
    int_column("timeline"),
)

farm_hosts = Table(
    "farm_hosts",
    METADATA,
    Column("host", Text, primary_key=True),
    *[text_column(name) for name in ("state", "host_id", "machine")],
    *optional_texts("home_id", "account"),
    Column("labels", ARRAY(Text), nullable=False),
    time_column("registered_at"),
    big_column("run_bytes", null=True),
    time_column("run_bytes_at", null=True),
)

farm_workers = Table(
    "farm_workers",
    METADATA,
    Column("worker_id", Text, primary_key=True),
    host_column(null=False),
    *[text_column(name) for name in ("state", "pid_started", "boot_id", "machine")],
    *optional_texts("home_id", "codex_version"),
    big_column("beat"),
    time_column("lease_until"),
    Column("lease_seconds", Double, nullable=False),
    *[int_column(name) for name in ("pid", "slots", "version")],
    Column("labels", ARRAY(Text), nullable=False),
    big_column("free_bytes", null=True),
    big_column("min_free_bytes"),
    time_column("started_at"),
    time_column("looked_at", null=True),
)
Index(
    "one_live_worker_a_host",
    farm_workers.c.host,
    unique=True,
    postgresql_where=text("state in ('up', 'draining')"),
)

farm_schedulers = Table(
    "farm_schedulers",
    METADATA,
    Column("scheduler_id", Text, primary_key=True),
    text_column("state"),
    big_column("beat"),
    time_column("lease_until"),
    Column("lease_seconds", Double, nullable=False),
    text_column("machine"),
    int_column("pid"),
    int_column("version"),
    time_column("started_at"),
)

call_claims = Table(
    "call_claims",
    METADATA,
    Column("call_id", Text, primary_key=True),
    *[text_column(name) for name in ("run_id", "path", "kind", "effect", "request_id", "state")],
    *optional_texts("node_id", "role", "label", "grant_id", "stop"),
    *[int_column(name) for name in ("position", "attempt", "rows_written", "crashes")],
    big_column("fence"),
    Column("worker_id", Text, ForeignKey("farm_workers.worker_id")),
    Column("sent", Boolean, nullable=False),
    host_column("sent_host"),
    host_column("pin_host"),
    time_column("opened_at"),
    time_column("claimed_at", null=True),
    Column("deadline_seconds", Double),
)
Index("claims_of_worker", call_claims.c.worker_id, postgresql_where=text("state = 'claimed'"))
Index(
    "claims_of_run",
    call_claims.c.run_id,
    postgresql_where=text("state in ('open', 'claimed', 'stranded', 'lost')"),
)
Index("claims_stranded", call_claims.c.sent_host, postgresql_where=text("state = 'stranded'"))

node_placements = Table(
    "node_placements",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("node_id", Text, primary_key=True),
    host_column(),
    int_column("generation"),
    text_column("made_by_call"),
    Column("used", Boolean, nullable=False),
)
Index("placements_of_host", node_placements.c.host, postgresql_where=text("host is not null"))

outbox = Table(
    "outbox",
    METADATA,
    Column("call_id", Text, primary_key=True),
    text_column("run_id"),
    text_column("request_id"),
    time_column("not_before"),
    int_column("tries"),
)
Index("outbox_due", outbox.c.not_before)
Index("outbox_held", outbox.c.run_id, postgresql_where=text("not_before = 'infinity'"))
Index("outbox_published", outbox.c.run_id, postgresql_where=text("not_before < 'infinity'"))

host_questions = Table(
    "host_questions",
    METADATA,
    Column("question_id", Text, primary_key=True),
    host_column(null=False),
    text_column("kind"),
    text_column("run_id"),
    *optional_texts("call_id", "answer_json"),
    int_column("epoch"),
    time_column("asked_at"),
    time_column("answered_at", null=True),
    Column("answered_by", Text, ForeignKey("farm_workers.worker_id")),
)
Index(
    "questions_open",
    host_questions.c.host,
    host_questions.c.asked_at,
    postgresql_where=text("answered_at is null"),
)

run_cleaners = Table(
    "run_cleaners",
    METADATA,
    Column("cleaner", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("flow_runs.run_id"), nullable=False),
    text_column("place"),
    Column("worker_id", Text, ForeignKey("farm_workers.worker_id")),
    time_column("began_at"),
    time_column("held_until"),
)
Index("cleaners_of_run", run_cleaners.c.run_id)

# Unlogged: what agents do right now, shown by `watch`; a crash of the database empties it and nobody minds.
call_progress = Table(
    "call_progress",
    METADATA,
    Column("call_id", Text, primary_key=True),
    text_column("run_id"),
    big_column("fence"),
    *optional_texts("turn", "message", "command"),
    big_column("tokens", null=True),
    Column("seconds", Double),
    time_column("seen_at"),
    prefixes=["UNLOGGED"],
)
Index("progress_of_run", call_progress.c.run_id)

server_generations = Table(
    "server_generations",
    METADATA,
    Column("generation", Text, primary_key=True),
    host_column(null=False),
    Column("worker_id", Text, ForeignKey("farm_workers.worker_id"), nullable=False),
    int_column("pid"),
    *[text_column(name) for name in ("pid_started", "boot_id", "codex_path", "codex_version", "state")],
    time_column("started_at"),
    time_column("ended_at", null=True),
    text_column("reason", null=True),
)
Index("generations_of_host", server_generations.c.host, server_generations.c.started_at)

host_limits = Table(
    "host_limits",
    METADATA,
    Column("host", Text, ForeignKey("farm_hosts.host"), primary_key=True),
    Column("limit_id", Text, primary_key=True),
    Column("used_percent", Double, nullable=False),
    int_column("window_minutes", null=True),
    time_column("resets_at", null=True),
    time_column("observed_at"),
)
