"""`crw flow watch`: follow a run, live on a terminal, line by line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime

import click
from rich.console import Console
from rich.live import Live

from scheduler.cli.flow_result import exit_status, print_outcome
from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import is_terminal, note, record, say
from scheduler.cli.render_live import doing_words, live_view
from scheduler.cli.render_rows import doing_line, row_line, row_record
from scheduler.cli.view import RunView
from scheduler.client import Farm
from scheduler.following import Cursor, Patience
from shared.base.errors import StoreUnavailable
from shared.base.ids import RunId
from shared.journal.database import clock
from shared.journal.progress import Progress
from shared.journal.progress import load as load_progress
from shared.model.rows import Row

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
        if as_json:
            for row in cursor.follow():
                record(row_record(row))
        elif plain or not is_terminal():
            _follow(farm, cursor, _Lines().show, farm.settings.poll_seconds)
        else:
            _draw(farm, cursor)
    except KeyboardInterrupt:
        note(f"the run goes on; 'crw flow watch {run}' follows it again, 'crw flow cancel {run}' stops it")
        raise
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error}; go on with 'crw flow watch {run} --after {cursor.seq}'") from None
    finally:
        cursor.close()


Progresses = dict[str, Progress]
Show = Callable[[list[Row], RunView, Progresses], None]


def _follow(farm: Farm, cursor: Cursor, show: Show, pause_seconds: float) -> None:
    """Give `show` what is new, again and again, until the run has ended; a database that is away is waited for."""
    view = RunView(cursor.run_id)
    patience = Patience()
    while True:
        rows: list[Row] = []
        progress: Progresses = {}
        try:
            _read_all(cursor, rows)
            progress = {one.call_id: one for one in load_progress(farm.database, cursor.run_id)}
            patience.restore()
        except StoreUnavailable as error:
            patience.lose(error)
        for row in rows:
            view.add(row)
        show(rows, view, progress)
        if cursor.ended:
            return
        cursor.wait(pause_seconds)


def _read_all(cursor: Cursor, rows: list[Row]) -> None:
    """Add every row there is to `rows`; what was read stays in it when the database goes away in between."""
    rows += cursor.read()
    while cursor.more:
        rows += cursor.read()


class _Lines:
    """Rows as lines, and what an agent does when it does something else than before."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, rows: list[Row], view: RunView, progress: Progresses) -> None:
        """Print what is new."""
        for row in rows:
            if line := row_line(row):
                say(line)
        for call in view.open_calls:
            doing = doing_words(call, progress.get(call.call_id))
            if doing and self._said.get(call.call_id) != doing:
                self._said[call.call_id] = doing
                say(doing_line(call, doing))
        sys.stdout.flush()


def _draw(farm: Farm, cursor: Cursor) -> None:
    console = Console(highlight=False)
    # The database's clock wrote the rows; this machine's may be off.
    offset = clock(farm.database) - datetime.now().astimezone()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(_rows: list[Row], view: RunView, progress: Progresses) -> None:
            now = datetime.now().astimezone() + offset
            live.update(live_view(view, progress, now, height=console.height, width=console.width), refresh=True)

        _follow(farm, cursor, show, _REDRAW_SECONDS)
