"""A run and its rows as SQLAlchemy sees them; the migrations make the tables, a test holds the two equal.

`flow_calls` and `flow_events` are what happened: only ever inserted. `flow_runs` is
a run's identity, never updated, with its counters and lease; results, sources and
artifacts lie by digest. Source: journal document, "Persistence".
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    Text,
    text,
)

from shared.journal.columns import (
    METADATA,
    big_column,
    int_column,
    optional_texts,
    text_column,
    time_column,
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
    *[text_column(name) for name in ("workflow", "spec_digest", "script_digest", "helpers_digest", "args_digest")],
    *optional_texts("plan_id", "actor_task", "epoch_nonce", "resumes_run", "host_label"),
    int_column("plan_revision", null=True),
    int_column("max_turns", null=True),
    int_column("format"),
    time_column("submitted_at"),
    text_column("state"),
    text_column("stop", null=True),
    Column("scheduler_id", Text, ForeignKey("farm_schedulers.scheduler_id")),
    int_column("lease_epoch"),
    int_column("takes_without_progress"),
    big_column("next_seq"),
    big_column("sched_rows"),
    int_column("turns_sent"),
    int_column("resumes"),
    big_column("next_foreign_seq"),
    time_column("ended_at", null=True),
    time_column("hub_cleaned_at", null=True),
    time_column("cleaned_at", null=True),
)
Index("runs_to_take", flow_runs.c.submitted_at, postgresql_where=text("state in ('queued', 'running')"))
Index("flow_runs_forks", flow_runs.c.resumes_run, postgresql_where=text("resumes_run is not null"))
Index("runs_of_scheduler", flow_runs.c.scheduler_id, postgresql_where=text("state = 'running'"))

flow_specs = Table(
    "flow_specs",
    METADATA,
    Column("run_id", Text, ForeignKey("flow_runs.run_id"), primary_key=True),
    text_column("spec_json"),
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
    text_column("media_type"),
    Column("bytes", LargeBinary, nullable=False),
    time_column("written_at"),
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
    *[text_column(name) for name in ("call_id", "path", "kind", "event", "request_id", "detail_json")],
    *[int_column(name) for name in ("position", "attempt", "writer")],
    Column("terminal", Boolean, nullable=False),
    big_column("fence", null=True),
    *optional_texts(*_OPTIONAL_OF_CALLS),
    int_column("allocation", null=True),
    big_column("tokens", null=True),
    big_column("result_bytes", null=True),
    Column("result", LargeBinary),
    time_column("written_at"),
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
    text("(event = 'superseded')"),
    unique=True,
    postgresql_where=text("terminal"),
)

flow_events = Table(
    "flow_events",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    text_column("kind"),
    *optional_texts("path", "op", "label"),
    int_column("position", null=True),
    time_column("written_at"),
    int_column("writer"),
    text_column("payload_json"),
)
