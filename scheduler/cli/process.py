"""Become another program of the farm: `crw worker` is `python -m workers.app`, and nothing stands in between.

The process keeps its pid, so a supervisor's signals reach the program itself. Options
travel as the settings' own variables, since only they reach every part of that program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from shared.base.settings import load_settings


def become(module: str, arguments: Sequence[str] = (), settings: Mapping[str, object | None] | None = None) -> NoReturn:
    """Replace this process by `python -m module`, with the settings given here over the configured ones.

    Raises:
        SettingsError: the settings cannot be used: said before the process is another one.
    """
    for name, value in (settings or {}).items():
        if value is not None:
            os.environ[f"CRW_{name.upper()}"] = str(value)
    load_settings()
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: modules of the working directory must not stand in for the program's own.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])
