"""Submitting: everything is checked before anything is written, and a submit is repeatable."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from scheduler.client import Farm
from shared.base.errors import UsageError
from shared.journal.database import Database
from shared.journal.runs import list_runs, load_spec, run_state
from tests.integration.cli.conftest import SCRIPT, Crw
from tests.repositories import git, write_files

START = ("flow", "start", "flow.py", "--repo", "repo")


def test_start_prints_id_and_key_and_stores_what_was_asked_for(crw: Crw, place: Path, database: Database):
    said = crw(*START, "--args", '{"goal": "x"}', "--key", "k1", "--max-turns", "7", "--json")
    (record,) = said.records
    assert (said.status, record["key"], record["created"]) == (0, "k1", True)
    spec = load_spec(database, record["run"])
    assert (spec.args, spec.max_turns, spec.backend, spec.target) == ({"goal": "x"}, 7, "app-server", "")
    assert spec.base == git(place / "repo", "rev-parse", "HEAD")
    assert spec.roles["executor"].model == "m" and list(spec.roles) == ["executor"]
    assert spec.label is not None, "a path binds the run to this machine"


@pytest.mark.req("T51")
def test_the_same_key_with_the_same_content_is_the_same_run(crw: Crw, database: Database):
    first = crw(*START, "--key", "k")
    again = crw(*START, "--key", "k")
    assert again.status == 0 and again.out.split()[0] == first.out.split()[0]
    assert "had this run already" in again.out
    assert len(list_runs(database)) == 1


@pytest.mark.req("T51")
def test_the_same_key_with_other_content_is_refused_and_says_what_differs(crw: Crw, database: Database):
    crw(*START, "--key", "k")
    said = crw(*START, "--key", "k", "--args", "[1]")
    assert said.status == 2 and "args" in said.err
    assert len(list_runs(database)) == 1


@pytest.mark.req("K26", "K71")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.py", "--repo", "repo"), "no script none.py"),
        (("broken.py", "--repo", "repo"), "broken.py line 1 does not parse"),
        (("no_main.py", "--repo", "repo"), "no main"),
        (("flow.py", "--repo", "repo", "--args", "{no"), "--args is not JSON"),
        (("flow.py", "--repo", "nowhere"), "no directory nowhere"),
        (("flow.py", "--repo", "."), "is not a git repository"),
        (("flow.py", "--repo", "repo", "--base", "gone"), "no commit 'gone'"),
        (("flow.py", "--repo", "repo", "--target", "main"), "checked out"),
        (("flow.py", "--repo", "repo", "--label", "gpu"), "binds the run to this machine"),
        (("flow.py", "--repo", "repo", "--backend", "magic"), "'magic' is not"),
        (("flow.py", "--repo", "repo", "--max-turns", "0"), "--max-turns"),
        (("flow.py", "--repo", "repo", "--max-turns", "2147483648"), "from 1 to 2147483647"),
        (("flow.py", "--repo", "repo", "--key", "a\nb"), "cannot be shown"),
        (("flow.py", "--repo", "repo", "--key", "\udcff"), "cannot be shown"),
        (("flow.py", "--repo", "repo", "--base", "\udcff"), "no UTF-8 text"),
        (("flow.py", "--repo", ""), "repo is empty"),
        (("flow.py", "--repo", "repo", "--base", ""), "base is empty"),
        (("flow.py", "--repo", "repo", "--target", ""), "target is empty"),
        (("flow.py", "--repo", "repo", "--args", '{"a": 1, "a": 2}'), "'a' stands twice"),
        (("flow.py", "--repo", "repo", "--args", "9" * 5000), "4300 digits"),
        (("flow.py", "--repo", "repo", "--args", "[" * 100_000), "nested too deeply"),
        (("flow.py", "--repo", "repo", "--wait", "--watch"), "keep one"),
        (("unknown_role.py", "--repo", "repo"), "there is no role 'wizard'"),
        (("modelless.py", "--repo", "repo"), "write [roles.qa] and below it model"),
        (("effortful.py", "--repo", "repo"), "there is no effort 'mighty'"),
        (("unknown_op.py", "--repo", "repo"), "no op flow.crw.deploy"),
        (("clock.py", "--repo", "repo"), "flow.clock()"),
    ],
)
def test_bad_input_is_one_sentence_with_its_mend_and_nothing_is_written(
    crw: Crw, place: Path, database: Database, arguments: tuple[str, ...], words: str
):
    write_files(
        place,
        {
            "broken.py": "def (",
            "no_main.py": "x = 1\n",
            "unknown_role.py": SCRIPT.replace('"executor", node="core"', '"wizard"'),
            "modelless.py": SCRIPT.replace('"executor", node="core"', '"qa"'),
            "effortful.py": SCRIPT.replace('node="core"', 'node="core", effort="mighty"'),
            "unknown_op.py": "async def main(flow, args):\n    await flow.crw.deploy()\n",
            "clock.py": "import time\nasync def main(flow, args):\n    return time.time()\n",
        },
    )
    said = crw("flow", "start", *arguments)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith("crw: ") and said.err.count("\n") == 1, said.err
    assert words in said.err
    assert list_runs(database) == []


def test_a_script_with_effects_is_taken_when_it_is_trusted(crw: Crw, place: Path):
    write_files(place, {"clock.py": "import time\nasync def main(flow, args):\n    return time.time()\n"})
    assert crw("flow", "start", "clock.py", "--repo", "repo", "--trust-effects").status == 0


@pytest.mark.req("K71")
@pytest.mark.parametrize(
    ("variable", "url", "words"),
    [
        ("CRW_DATABASE_URL", "postgresql+psycopg2://nobody:secret@127.0.0.1:9/none", "Postgres cannot be used"),
        ("CRW_BROKER_URL", "redis://:secret@127.0.0.1:9/0", "no broker answers"),
    ],
)
def test_a_service_that_is_down_is_said_within_five_seconds_and_its_password_is_not(
    crw: Crw, monkeypatch: pytest.MonkeyPatch, database: Database, variable: str, url: str, words: str
):
    monkeypatch.setenv(variable, url)
    begun = time.monotonic()
    said = crw(*START, "--json")
    assert time.monotonic() - begun < 7
    assert said.status == 2 and words in json.loads(said.err)["error"]
    assert "secret" not in said.err
    assert list_runs(database) == []


def test_check_lists_every_finding_and_fails_when_a_submit_would(crw: Crw, place: Path):
    assert crw("flow", "check", "flow.py").status == 0
    write_files(place, {"bad.py": "import time\nasync def main(flow, args):\n    time.time()\n    open('x')\n"})
    said = crw("flow", "check", "bad.py", "--json")
    assert said.status == 1 and {finding["line"] for finding in said.records[0]["findings"]} == {3, 4}
    assert crw("flow", "check", "bad.py", "--trust-effects").status == 0


def test_a_batch_is_refused_whole_for_one_bad_line_and_is_safe_to_repeat(crw: Crw, place: Path, database: Database):
    lines = [json.dumps({"args": {"n": number}}) for number in range(5)]
    (place / "runs.jsonl").write_text("\n".join([*lines, '{"base": "gone"}']))
    batch = ("flow", "batch", "runs.jsonl", "--script", "flow.py", "--repo", "repo", "--json")
    said = crw(*batch)
    assert said.status == 2 and "line 6: " in said.err
    assert list_runs(database) == []
    (place / "runs.jsonl").write_text("\n".join(lines))
    first, again = crw(*batch), crw(*batch)
    assert [one["run"] for one in first.records] == [one["run"] for one in again.records]
    assert [one["created"] for one in again.records] == [False] * 5
    assert len(list_runs(database)) == 5


def test_a_batch_whose_key_has_another_run_is_refused_before_the_first_is_submitted(
    crw: Crw, place: Path, database: Database
):
    crw(*START, "--key", "taken")
    lines = [{"args": 1}, {"args": 2, "key": "taken"}]
    (place / "runs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    said = crw("flow", "batch", "runs.jsonl", "--script", "flow.py", "--repo", "repo")
    assert said.status == 2 and "line 2: the key taken belongs to run" in said.err
    assert len(list_runs(database)) == 1


def test_a_script_submits_with_the_farm(place: Path, database: Database):
    with Farm() as farm:
        run = farm.submit("flow.py", repo="repo", args=[1], key="mine")
        many = farm.submit_many([{"script": "flow.py", "repo": "repo", "args": n} for n in range(3)])
        with pytest.raises(UsageError, match="no run raaaaaaaaaaaa"):
            farm.result("raaaaaaaaaaaa")
    state = run_state(database, str(run))
    assert state is not None and (state.run_key, state.state) == ("mine", "queued")
    assert len({str(one) for one in many}) == 3
