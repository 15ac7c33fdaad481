"""`crw flow watch`: follow a run, live on a terminal, line by line elsewhere."""

from __future__ import annotations

import sys
from datetime import datetime

import click
from rich.console import Console
from rich.live import Live

from scheduler.cli.flow_result import exit_status, print_outcome
from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import is_terminal, record, say
from scheduler.cli.render_live import live_view
from scheduler.cli.render_rows import row_line, row_record
from scheduler.cli.view import RunView
from scheduler.client import Farm
from scheduler.following import Cursor, Patience
from shared.base.errors import StoreUnavailable
from shared.base.ids import RunId
from shared.journal.database import clock
from shared.journal.progress import load as load_progress

_REDRAW_SECONDS = 0.5


@click.command("watch")
@run_argument
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Go on behind this row.")
@click.option("--plain", is_flag=True, help="Lines, also on a terminal.")
@json_option
def command(run: RunId, after: int, plain: bool, as_json: bool) -> int:
    """Follow RUN to its end: its lanes, and for each open call what its agent is doing.

    Prints the result at the end; the exit status is 0 when the script came to its
    end and 1 otherwise. Ctrl-C only stops watching. With --json every row is one
    line; a reader that went away goes on exactly behind the last "seq" it has.

    \b
    crw flow watch RUN
    crw flow watch RUN --json --after 120
    """
    with Farm(process="cli") as farm:
        farm.state(run)
        watch_run(farm, run, after=after, as_json=as_json, plain=plain)
        outcome = farm.outcome(run)
    if not as_json:
        print_outcome(outcome, as_json=False)
    return exit_status(outcome)


def watch_run(farm: Farm, run: str, *, after: int, as_json: bool, plain: bool = False) -> None:
    """Show a run's rows from behind `after` until it has ended."""
    cursor = farm.cursor(run, after)
    try:
        if not as_json and not plain and is_terminal():
            _draw(farm, cursor)
        else:
            _print(cursor, as_json)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error}; go on with 'crw flow watch {run} --after {cursor.seq}'") from None
    finally:
        cursor.close()


def _print(cursor: Cursor, as_json: bool) -> None:
    for row in cursor.follow():
        if as_json:
            record(row_record(row))
        elif line := row_line(row):
            say(line)
            sys.stdout.flush()


def _draw(farm: Farm, cursor: Cursor) -> None:
    view = RunView(cursor.run_id)
    console = Console(highlight=False)
    patience = Patience()
    # The database's clock wrote the rows; this machine's may be off.
    offset = clock(farm.database) - datetime.now().astimezone()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            try:
                _read_all(cursor, view)
                progress = {one.call_id: one for one in load_progress(farm.database, cursor.run_id)}
                patience.restore()
            except StoreUnavailable as error:
                patience.lose(error)
            now = datetime.now().astimezone() + offset
            live.update(live_view(view, progress, now, height=console.height, width=console.width), refresh=True)
            if cursor.ended:
                return
            cursor.wait(_REDRAW_SECONDS)


def _read_all(cursor: Cursor, view: RunView) -> None:
    while True:
        for row in cursor.read():
            view.add(row)
        if not cursor.more:
            return
