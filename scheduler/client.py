"""`Farm`: the farm from a script, and the one way in which the command line does everything.

    from scheduler.client import Farm

    with Farm() as farm:
        run = farm.submit("my_flow.py", repo=".", args={"goal": "..."}, key="nightly-1")
        print(farm.wait(run).result)

Submitting writes rows and tells the schedulers; nothing else is needed on the machine
that does it. A submit is repeatable: the same key with the same content is the same run.
Source: journal document, "Persistence".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler.connection import FarmConnection
from scheduler.following import PAGE_ROWS
from scheduler.outcome import Outcome
from scheduler.resuming import NOTHING_GIVEN, Given, check_same, resume_run
from scheduler.submission import Submission
from scheduler.submitted import Run, Submitted
from scheduler.wanted import Wanted, parse_wanted
from shared.base.errors import RunFailed, StillRunning, UsageError
from shared.journal.read import load_after
from shared.journal.runs import RunState, load_spec, set_stop
from shared.journal.submit import NewRun, check_keys, submit_many
from shared.model.rows import EventRow, Row


class Farm(FarmConnection):
    """Submits runs and reads them. Made, connected and closed as `FarmConnection` says; use it in a `with`."""

    def submit(
        self,
        script: str | Path,
        *,
        repo: str | Path,
        base: str | None = None,
        target: str | None = None,
        args: Any = None,
        key: str | None = None,
        label: str | None = None,
        max_turns: int | None = None,
        trust_effects: bool = False,
        backend: str = "app-server",
    ) -> Submitted:
        """Submit one run.

        Args:
            base: what it starts from; default the repository's HEAD.
            target: the branch that `integrate` moves; default `crw/<run>`.
            args: a JSON value for the script; default `{}`.
            key: the same key never starts a second run; default a new one.
            label: only hosts with this label take its calls.
            max_turns: cap on the turns of the whole run.
            trust_effects: take a script although it does things outside `flow.*`.

        Raises:
            UsageError: something cannot be used; nothing was written.
            StoreUnavailable, BrokerUnavailable: a service does not answer.
        """
        wanted = Wanted(
            script, str(repo), base, target, {} if args is None else args, key, label, max_turns, trust_effects, backend
        )
        return self.submit_wanted([wanted])[0]

    def submit_many(self, wanted: Iterable[Mapping[str, Any]]) -> list[Submitted]:
        """Submit many runs, each given by the arguments of `submit`; all are checked before the first is submitted.

        Raises:
            UsageError: one cannot be used; nothing was written.
        """
        return self.submit_wanted([parse_wanted(given, f"run {number}") for number, given in enumerate(wanted, 1)])

    def submit_wanted(
        self, wanted: Sequence[Wanted], progress: Callable[[str, int], None] = lambda _step, _count: None
    ) -> list[Submitted]:
        """As `submit_many`; `progress(step, count)` is told after each run that was "checked" or "submitted".

        Raises:
            UsageError: its fact `index` says which one cannot be used.
        """
        submission = Submission(self.settings)
        checked: list[NewRun] = []
        for index, one in enumerate(wanted):
            try:
                checked.append(submission.check(one))
            except UsageError as error:
                error.facts["index"] = index
                raise
            progress("checked", index + 1)
        # Last of the checks, since they take seconds when something is down; still before anything is written.
        self.check_services()
        check_keys(self.database, checked)
        done: list[Submitted] = []
        for run, stored in zip(checked, submit_many(self.database, checked), strict=True):
            done.append(Submitted(stored.run_id, str(run.key), stored.created))
            self._bell.tell(stored.run_id)
            progress("submitted", len(done))
        return done

    def wait(self, run: Run, timeout: float | None = None) -> Outcome:
        """Wait until a run has ended.

        Raises:
            StillRunning: it has not, after `timeout` seconds.
            UsageError: there is no such run.
        """
        state = self.state(run)
        if state.state != "ended":
            # The end row is still to come, so only what follows has to be read.
            cursor = self.cursor(run, state.next_seq - 1)
            deadline = None if timeout is None else time.monotonic() + timeout
            try:
                for _row in cursor.follow(deadline):
                    pass
            finally:
                cursor.close()
        return self.outcome(run)

    def outcome(self, run: Run) -> Outcome:
        """How a run ended.

        Raises:
            StillRunning: it has not ended.
            UsageError: there is no such run.
        """
        state = self.state(run)
        if state.state != "ended":
            raise StillRunning(
                f"run {state.run_id} has not ended; follow it with 'crw flow watch {state.run_id}'", state=state.state
            )
        # An ended run takes no row any more: its end is its last row.
        end = load_after(self.database, state.run_id, state.next_seq - 2, 1).rows[-1]
        assert isinstance(end, EventRow) and end.kind == "finished"
        return Outcome.of(state.run_id, end.data)

    def result(self, run: Run) -> Any:
        """What the script's `main` returned.

        Raises:
            StillRunning: the run has not ended.
            RunFailed: it ended without a result.
        """
        outcome = self.outcome(run)
        if not outcome.ok:
            raise RunFailed(outcome.sentence(), status=outcome.status, error_kind=outcome.error_kind)
        return outcome.result

    def rows(self, run: Run, after: int = 0) -> Iterator[Row]:
        """The run's rows behind `after` that there are now, lean, in their order."""
        state = self.state(run)
        more = True
        while more:
            page = load_after(self.database, state.run_id, after, PAGE_ROWS)
            yield from page.rows
            after, more = (page.rows[-1].seq if page.rows else after), page.more

    def cancel(self, run: Run) -> RunState:
        """Set the run's stop: from this commit on nothing of it is sent; its scheduler ends it.

        Returns:
            Where the run stood before.

        Raises:
            UsageError: there is no such run.
        """
        before = self.state(run)
        set_stop(self.database, before.run_id, "cancel")
        self.tell(before.run_id)
        return before

    def resume(self, run: Run, given: Given = NOTHING_GIVEN, *, attach: bool = False) -> int:
        """Queue a run again that ended, was paused or was set aside; a scheduler walks it.

        Args:
            given: what the caller believes the run to be: only compared.
            attach: take a run that is being driven for resumed.

        Returns:
            The number of the last row before the resume: what follows is its own.

        Raises:
            UsageError: there is no such run, it is another one than was given, somebody drives it, or it was cleaned
                and its hub cannot be had.
        """
        state = self.state(run)
        if attach and state.stop is None and state.state in ("running", "queued"):
            check_same(load_spec(self.database, state.run_id), given)
            return state.next_seq - 1
        reopened = resume_run(self.database, state, given)
        self.tell(reopened.run_id)
        return reopened.next_seq - 1
