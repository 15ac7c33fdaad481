"""`crw flow check`: what a script has that a run may not."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import record, say
from scheduler.flow.check import Finding, check_sources, refusals
from scheduler.flow.sources import collect
from scheduler.submission import known_names, model_mend, roles_without_model, snapshot_roles
from shared.base.settings import load_settings


@click.command("check")
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--trust-effects", is_flag=True, help="Count only what is wrong whatever happens.")
@json_option
def command(script: Path, trust_effects: bool, as_json: bool) -> int:
    """Say what SCRIPT has that a run may not, without running it.

    Errors are wrong whatever happens: an unknown role, op or schema. Effects act
    outside flow.*, and what is not deterministic would be read differently at a
    replay; 'flow start --trust-effects' takes both as they are.
    Exit status 0 when a submit would take the script, 1 when it would not.

    \b
    crw flow check my_flow.py
    crw flow check my_flow.py --json
    """
    settings = load_settings()
    sources = collect(script)
    findings = check_sources(sources, known_names(settings))
    without_model = roles_without_model(sources, snapshot_roles(settings))
    refused = refusals(findings, trust_effects)
    if as_json:
        record(
            {
                "ok": not refused and not without_model,
                "files": sorted(sources.files),
                "findings": [finding_record(finding) for finding in findings],
                "roles_without_model": without_model,
            }
        )
    else:
        for finding in findings:
            say(f"{finding.kind:<15} {finding}" + ("" if finding in refused else " (taken)"))
        for role in without_model:
            say(f"{'error':<15} role {role!r} has no model; {model_mend(role)}")
        if not findings and not without_model:
            say(f"{script}: nothing to mend; ships {', '.join(sorted(sources.files))}")
    return int(bool(refused or without_model))


def finding_record(finding: Finding) -> dict[str, str | int]:
    """A finding as a JSON object."""
    return {"file": finding.file, "line": finding.line, "kind": finding.kind, "sentence": finding.sentence}
