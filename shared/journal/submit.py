"""Submitting runs: stored once under their key, however often they are submitted.

A key belongs to the run that took it first. The same content again is that run;
other content is refused, and the sentence says what differs. Runs that are submitted
together share transactions, since a commit costs more than all else.
Source: journal document, "Persistence"; definition of sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from shared.base.canonical import digest_bytes, digest_json, from_storable, storable
from shared.base.errors import UsageError
from shared.base.ids import RunId, new_run_id
from shared.journal.database import Database, retrying
from shared.journal.queries import running
from shared.journal.tables import flow_sources
from shared.model.spec import RunSpec

RUNS_A_TRANSACTION = 200


@dataclass(frozen=True)
class Submitted:
    """A run that exists. `created` is False when the key already had it."""

    run_id: RunId
    created: bool


@dataclass(frozen=True)
class NewRun:
    """A run to be stored. Shape: `sources` every file of `spec.sources` by name; `key` None for none."""

    spec: RunSpec
    sources: Mapping[str, bytes]
    key: str | None = None


def submit(database: Database, spec: RunSpec, sources: Mapping[str, bytes], key: str | None = None) -> Submitted:
    """Store a run; with a key that is taken, the run that has it.

    Raises:
        UsageError: the key belongs to a run with other content; the sentence names what differs.
        ValueError: the sources are not those of the spec.
    """
    (submitted,) = submit_many(database, [NewRun(spec, sources, key)])
    return submitted


def submit_many(database: Database, wanted: Sequence[NewRun]) -> Iterator[Submitted]:
    """Store runs, `RUNS_A_TRANSACTION` at a time; each is given back when it is committed.

    Raises:
        UsageError: as `submit`, its fact `index` says which one; what was given back before is stored.
        ValueError: the sources of one are not those of its spec; nothing is stored.
    """
    for run in wanted:
        if {name: digest_bytes(data) for name, data in run.sources.items()} != dict(run.spec.sources):
            raise ValueError("the sources are not those that the spec names")
    for first in range(0, len(wanted), RUNS_A_TRANSACTION):
        yield from _submit_group(database, wanted[first : first + RUNS_A_TRANSACTION], first)


def check_keys(database: Database, wanted: Sequence[NewRun]) -> None:
    """Refuse a batch before its first run is stored when one of its keys has another run.

    Raises:
        UsageError: as `submit_many`.
    """

    def read() -> None:
        with database.statement() as connection:
            _runs_of_keys(connection, wanted, 0)

    retrying(read)


def _submit_group(database: Database, group: Sequence[NewRun], first: int) -> list[Submitted]:
    # The ids are chosen once: a repetition after a lost answer meets its own runs and knows them.
    ids = [new_run_id() for _ in group]
    rows = [_row(run_id, run) for run_id, run in zip(ids, group, strict=True)]
    sources = {digest_bytes(data): data for run in group for data in run.sources.values()}

    def store() -> list[Submitted]:
        with database.transaction() as connection:
            for digest, data in sorted(sources.items()):
                connection.execute(insert(flow_sources).values(digest=digest, bytes=data).on_conflict_do_nothing())
            made = set(connection.execute(running.new_runs(), _columns(rows)).scalars())
            new = [(run_id, run) for run_id, run in zip(ids, group, strict=True) if run_id in made]
            specs = {"run_ids": [run_id for run_id, _ in new], "specs": [_spec_text(run.spec) for _, run in new]}
            connection.execute(running.new_specs(), specs)
            if len(made) == len(group):
                return [Submitted(run_id, True) for run_id in ids]
            there = _runs_of_keys(connection, group, first)
            return [_submitted(run_id, there.get(run.key or "")) for run_id, run in zip(ids, group, strict=True)]

    return retrying(store)


def _submitted(run_id: RunId, there: str | None) -> Submitted:
    # A run of this id that was there already is an earlier try of this submit whose answer was lost.
    return Submitted(run_id, True) if there in (None, run_id) else Submitted(RunId(str(there)), False)


def _runs_of_keys(connection: Connection, wanted: Sequence[NewRun], first: int) -> dict[str, str]:
    """key -> run id of the keys that are taken; refuses a key whose run has other content."""
    keys = [run.key for run in wanted if run.key is not None]
    taken = {row.run_key: row for row in connection.execute(running.runs_of_keys(), {"keys": keys})}
    for index, run in enumerate(wanted, first):
        there = taken.get(run.key)
        if there is not None and there.spec_digest != run.spec.digest():
            stored, asked = from_storable(there.spec_json), json.loads(_spec_text(run.spec))
            differs = sorted(name for name in {*stored, *asked} if stored.get(name) != asked.get(name))
            raise UsageError(
                f"the key {run.key} belongs to run {there.run_id}, which has other {', '.join(differs)}; "
                "use another key, or submit exactly what that run has",
                run=there.run_id,
                differs=differs,
                index=index,
            )
    return {key: row.run_id for key, row in taken.items()}


def _spec_text(spec: RunSpec) -> str:
    return storable(spec.to_json())


def _row(run_id: str, run: NewRun) -> dict[str, Any]:
    spec = run.spec
    helpers = {name: digest for name, digest in spec.sources.items() if name != spec.script}
    return {
        "run_ids": run_id, "keys": run.key, "workflows": spec.workflow, "spec_digests": spec.digest(),
        "script_digests": spec.sources[spec.script], "helpers_digests": digest_json(helpers),
        "args_digests": digest_json(spec.args), "labels": spec.label, "max_turns": spec.max_turns,
        "formats": spec.format,
    }  # fmt: skip


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}
