"""How Alembic runs here: on the connection that `database.upgrade` opened, in its transaction."""

from __future__ import annotations

from alembic import context

from shared.journal.columns import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
