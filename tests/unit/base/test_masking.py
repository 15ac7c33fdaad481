"""What is shown of the settings has no secret in it."""

from __future__ import annotations

import json

from shared.base.masking import masked
from shared.base.settings import Settings


def test_passwords_in_urls_and_secrets_in_any_table_are_masked():
    settings = Settings(
        database_url="postgresql+psycopg2://crw:pw1@db/crw",
        broker_url="redis://:pw2@broker/0",
        flower={"password": "pw3"},
        codex={"config": {"model_providers": {"x": {"http_headers": {"Authorization": "Bearer pw4"}}}}},
    )
    shown = json.dumps(masked(settings))
    assert "pw" not in shown
    assert "postgresql+psycopg2://crw:***@db/crw" in shown
