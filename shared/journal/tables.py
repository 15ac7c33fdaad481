"""The journal's tables as SQLAlchemy sees them; the migrations make them, a test holds the two equal.

Authority: `flow_calls` and `flow_events` are what happened (insert-only);
`call_claims` who may work on a call now; `flow_runs` a run's identity (never
updated) with its counters and lease; `outbox` what nobody has claimed yet.
Source: journal document, "Persistence"; design of the farm, "The journal in Postgres".
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

METADATA = MetaData()


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _time(name: str, *, null: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=null)


def _int(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, Integer, nullable=null)


def _big(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


def _host(name: str = "host", *, null: bool = True) -> Column[str]:
    return Column(name, Text, ForeignKey("farm_hosts.host"), nullable=null)


def _optional_text(*names: str) -> list[Column[str]]:
    return [_text(name, null=True) for name in names]


farm_meta = Table(
    "farm_meta",
    METADATA,
    Column("one", Boolean, primary_key=True),
    _int("schema_version"),
    _int("min_writer"),
    _text("system_id"),
    _int("timeline"),
)

farm_hosts = Table(
    "farm_hosts",
    METADATA,
    Column("host", Text, primary_key=True),
    *[_text(name) for name in ("state", "host_id", "machine")],
    *_optional_text("home_id", "account"),
    Column("labels", ARRAY(Text), nullable=False),
    _time("registered_at"),
)

farm_workers = Table(
    "farm_workers",
    METADATA,
    Column("worker_id", Text, primary_key=True),
    _host(null=False),
    *[_text(name) for name in ("state", "pid_started", "boot_id", "machine")],
    *_optional_text("home_id", "codex_version"),
    _big("beat"),
    _time("lease_until"),
    Column("lease_seconds", Double, nullable=False),
    *[_int(name) for name in ("pid", "slots", "version")],
    Column("labels", ARRAY(Text), nullable=False),
    _big("free_bytes", null=True),
    _big("min_free_bytes"),
    _time("started_at"),
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
    _text("state"),
    _big("beat"),
    _time("lease_until"),
    Column("lease_seconds", Double, nullable=False),
    _text("machine"),
    _int("pid"),
    _int("version"),
    _time("started_at"),
)

# Identity: set by the submit, never updated. The application role has no right to update these columns.
RUN_IDENTITY = (
    "run_id", "run_key", "workflow", "spec_digest", "script_digest", "helpers_digest", "args_digest", "plan_id",
    "plan_revision", "actor_task", "epoch_nonce", "resumes_run", "host_label", "max_turns", "format", "submitted_at",
)  # fmt: skip
flow_runs = Table(
    "flow_runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("run_key", Text, unique=True),
    *[_text(name) for name in ("workflow", "spec_digest", "script_digest", "helpers_digest", "args_digest")],
    *_optional_text("plan_id", "actor_task", "epoch_nonce", "resumes_run", "host_label"),
    _int("plan_revision", null=True),
    _int("max_turns", null=True),
    _int("format"),
    _time("submitted_at"),
    _text("state"),
    _text("stop", null=True),
    Column("scheduler_id", Text, ForeignKey("farm_schedulers.scheduler_id")),
    _int("lease_epoch"),
    _int("takes_without_progress"),
    _big("next_seq"),
    _big("sched_rows"),
    _int("turns_sent"),
    _big("next_foreign_seq"),
    _time("ended_at", null=True),
)
Index("runs_to_take", flow_runs.c.submitted_at, postgresql_where=text("state in ('queued', 'running')"))
Index("runs_of_scheduler", flow_runs.c.scheduler_id, postgresql_where=text("state = 'running'"))

flow_specs = Table(
    "flow_specs",
    METADATA,
    Column("run_id", Text, ForeignKey("flow_runs.run_id"), primary_key=True),
    _text("spec_json"),
)
flow_sources = Table(
    "flow_sources",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("bytes", LargeBinary, nullable=False),
)
flow_results = Table(
    "flow_results",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("bytes", LargeBinary, nullable=False),
)
artifacts = Table(
    "artifacts",
    METADATA,
    Column("digest", Text, primary_key=True),
    _text("media_type"),
    Column("bytes", LargeBinary, nullable=False),
    _time("written_at"),
)

_OPTIONAL_OF_CALLS = (
    "node_id", "role", "label", "plan_id", "execution_id", "commit_sha", "thread_id", "turn_id", "operation",
    "worktree_kind", "worktree_path", "start_commit", "pending_tree", "held_tree", "snapshot_digest",
    "input_state", "result_digest", "result_ref", "host",
)  # fmt: skip
flow_calls = Table(
    "flow_calls",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    *[_text(name) for name in ("call_id", "path", "kind", "event", "request_id", "detail_json")],
    *[_int(name) for name in ("position", "attempt", "writer")],
    Column("terminal", Boolean, nullable=False),
    _big("fence", null=True),
    *_optional_text(*_OPTIONAL_OF_CALLS),
    _int("allocation", null=True),
    _big("tokens", null=True),
    _big("result_bytes", null=True),
    Column("result", LargeBinary),
    _time("written_at"),
)
Index("calls_by_call", flow_calls.c.call_id, flow_calls.c.seq)
Index(
    "calls_by_node",
    flow_calls.c.run_id,
    flow_calls.c.node_id,
    flow_calls.c.seq,
    postgresql_where=text("node_id is not null"),
)
Index(
    "one_terminal_an_attempt",
    flow_calls.c.call_id,
    flow_calls.c.attempt,
    unique=True,
    postgresql_where=text("terminal"),
)

flow_events = Table(
    "flow_events",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    *_optional_text("path", "op", "label"),
    _int("position", null=True),
    _time("written_at"),
    _int("writer"),
    _text("payload_json"),
)

call_claims = Table(
    "call_claims",
    METADATA,
    Column("call_id", Text, primary_key=True),
    *[_text(name) for name in ("run_id", "path", "kind", "effect", "request_id", "state")],
    *_optional_text("node_id", "role", "label", "grant_id"),
    *[_int(name) for name in ("position", "attempt", "rows_written", "crashes")],
    _big("fence"),
    Column("worker_id", Text, ForeignKey("farm_workers.worker_id")),
    Column("sent", Boolean, nullable=False),
    _host("sent_host"),
    _host("pin_host"),
    _time("opened_at"),
    _time("claimed_at", null=True),
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
    _host(),
    _int("generation"),
    _text("made_by_call"),
    Column("used", Boolean, nullable=False),
)
Index("placements_of_host", node_placements.c.host, postgresql_where=text("host is not null"))

outbox = Table(
    "outbox",
    METADATA,
    Column("call_id", Text, primary_key=True),
    _text("run_id"),
    _text("request_id"),
    _time("not_before"),
    _int("tries"),
)
Index("outbox_due", outbox.c.not_before)

# Unlogged: what agents do right now, shown by `watch`; a crash of the database empties it and nobody minds.
call_progress = Table(
    "call_progress",
    METADATA,
    Column("call_id", Text, primary_key=True),
    _text("run_id"),
    _big("fence"),
    *_optional_text("turn", "message", "command"),
    _big("tokens", null=True),
    Column("seconds", Double),
    _time("seen_at"),
    prefixes=["UNLOGGED"],
)
Index("progress_of_run", call_progress.c.run_id)
