"""`crw doctor`: a check of everything, each failure with its mend."""

from __future__ import annotations

from typing import Any

import click

from scheduler.cli.agent_checks import check_agents
from scheduler.cli.machine_checks import (
    FAILED,
    NOTE,
    Check,
    check_git,
    check_python,
    check_roles,
    check_state_dir,
)
from scheduler.cli.options import json_option
from scheduler.cli.output import one_line, record, say
from scheduler.cli.service_checks import check_services
from shared.base.masking import masked
from shared.base.settings import config_file, load_settings


@click.command("doctor")
@click.option("--settings", "show_settings", is_flag=True, help="Show every setting in force as well, secrets masked.")
@json_option
def command(show_settings: bool, as_json: bool) -> int:
    """Check this machine, the services and the settings.

    Exit status 0 when all is well, 1 when a check failed (its mend stands below it),
    2 when the settings themselves cannot be read.

    \b
    crw doctor
    crw doctor --settings
    crw doctor --json
    """
    settings = load_settings()
    checks = [
        check_python(),
        check_git(),
        *check_agents(settings),
        *check_state_dir(settings),
        check_roles(settings),
        *check_services(settings),
    ]
    failed = any(check.state == FAILED for check in checks)
    source = config_file()
    if as_json:
        record(
            {
                "ok": not failed,
                "settings_file": str(source) if source else None,
                "settings": masked(settings),
                "checks": [vars(check) for check in checks],
            }
        )
    else:
        say(f"settings: {source or 'no crw.toml; defaults and CRW_* variables'}")
        say("\n".join(line for check in checks for line in check_lines(check)))
        if show_settings:
            say()
            say("\n".join(setting_lines(masked(settings))))
    return int(failed)


def check_lines(check: Check) -> list[str]:
    """A check as one line, with its mend below it when there is one."""
    mark = {FAILED: "FAIL", NOTE: "note"}.get(check.state, "ok")
    lines = [f"{mark:<4}  {check.name:<16} {one_line(check.fact)}"]
    if check.mend and check.state != "ok":
        lines.append(f"{'':<22} mend: {check.mend}")
    return lines


def setting_lines(values: dict[str, Any], prefix: str = "") -> list[str]:
    """Every setting as `name = value`, tables flattened with dots."""
    lines: list[str] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            lines += setting_lines(value, f"{prefix}{name}.")
        else:
            lines.append(f"{prefix}{name} = {one_line(str(value))}")
    return lines
