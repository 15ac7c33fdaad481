"""Settings as they may be shown: secrets are masked."""

from __future__ import annotations

import re
from typing import Any

from shared.base.log import mask_url
from shared.base.settings import Settings


def masked(settings: Settings) -> dict[str, Any]:
    """The settings as plain data for showing, with passwords replaced by `***`."""
    return _mask_secrets(settings.model_dump(mode="json"))


# Tables of the user's own, codex.config above all, may carry logins under any of these names.
_SECRET = re.compile(r"password|secret|token$|api[-_]?key|authorization|credential|bearer", re.IGNORECASE)


def _mask_secrets(values: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            shown[name] = _mask_secrets(value)
        elif isinstance(value, str) and value:
            shown[name] = "***" if _SECRET.search(name) else mask_url(value)
        else:
            shown[name] = value
    return shown
