"""Alembic's migrations of the journal's schema, applied by `crw db upgrade` alone."""
