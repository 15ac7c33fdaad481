"""When a worker last looked for calls: a heart that beats says nothing about a consumer that is dead.

Source: rules of the protocol, 29 (consuming health).
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("alter table farm_workers add column looked_at timestamptz")
