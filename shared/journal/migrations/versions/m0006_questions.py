"""What is asked of a host, and its answer: a question stands in a table, so no lost message can lose it.

Source: rules of the protocol, 26.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

QUESTIONS = """
create table host_questions (
  question_id text primary key, host text not null references farm_hosts, kind text not null,
  run_id text not null, call_id text, epoch integer not null, asked_at timestamptz not null default now(),
  answer_json text, answered_at timestamptz, answered_by text references farm_workers,
  constraint answered_whole check ((answer_json is null) = (answered_at is null)));
create index questions_open on host_questions (host, asked_at) where answered_at is null;
grant select, insert, update on host_questions to crw_app;
"""


def upgrade() -> None:
    op.execute(QUESTIONS)
