"""`crw flow batch`: submit one run for each line of a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

import click

from scheduler.batch_file import Line, read_batch
from scheduler.cli.options import json_option
from scheduler.cli.output import note, record, say
from scheduler.client import Farm
from scheduler.submitted import Submitted
from shared.base.errors import UsageError

_PROGRESS_SECONDS = 2.0


@click.command("batch")
@click.argument("file", type=click.File("rb"))
@click.option("--script", metavar="SCRIPT", help="For lines that name no script.")
@click.option("--repo", metavar="PATH|URL", help="For lines that name no repository.")
@click.option("--base", metavar="REF", help="For lines that name no base.")
@json_option
def command(file: BinaryIO, script: str | None, repo: str | None, base: str | None, as_json: bool) -> None:
    """Submit one run for each line of FILE ('-' reads standard input).

    A line is a JSON object: script, repo, and optionally base, target, args, key,
    label, max_turns, trust_effects. Every line is checked before the first run is
    submitted: one bad line refuses the file and says which. Prints id and key of
    each run. Safe to repeat: a run that is there already is not started again; a
    line without a key gets one from its content.

    \b
    crw flow batch runs.jsonl
    generate | crw flow batch - --script my_flow.py --repo . --json
    """
    lines = read_batch(file, {"script": script, "repo": repo, "base": base})
    with Farm(process="cli") as farm:
        try:
            runs = farm.submit_wanted([line.wanted for line in lines], told_now_and_then(len(lines)))
        except UsageError as error:
            index = error.facts.get("index")
            if index is None:
                raise
            raise UsageError(f"line {lines[index].number}: {error}") from None
    _print(lines, runs, as_json)


def told_now_and_then(total: int, seconds: float = _PROGRESS_SECONDS) -> Callable[[str, int], None]:
    """A listener that says on standard error how far a long batch is."""
    last = time.monotonic()

    def tell(step: str, count: int) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            note(f"{count} of {total} {step}")

    return tell


def _print(lines: Sequence[Line], runs: Sequence[Submitted], as_json: bool) -> None:
    for line, run in zip(lines, runs, strict=True):
        if as_json:
            record(
                {
                    "line": line.number,
                    "run": run.run_id,
                    "key": run.key,
                    "key_derived": line.derived,
                    "created": run.created,
                }
            )
        else:
            remarks = [("key derived from the line", line.derived), ("was there already", not run.created)]
            said = ", ".join(text for text, holds in remarks if holds)
            say(f"{run.run_id}  {run.key}" + (f"  ({said})" if said else ""))
    created = sum(run.created for run in runs)
    if not as_json:
        note(f"{created} runs submitted, {len(runs) - created} were there already")
