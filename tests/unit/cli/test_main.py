"""One place turns errors into sentences and exit statuses."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import click
import pytest

from scheduler.cli import main as program
from shared.base.errors import StoreUnavailable, UsageError


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch):
    """Make `crw` raise whatever it is given, as a command would."""

    def arrange(error: BaseException) -> None:
        def fail(**_given: object) -> None:
            raise error

        monkeypatch.setattr(program.crw, "main", fail)

    return arrange


@pytest.mark.req("K71")
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UsageError("no script; name one"), "crw: no script; name one\n"),
        (StoreUnavailable("Postgres does not answer\nat host:5432"), "crw: Postgres does not answer at host:5432\n"),
    ],
)
def test_an_error_is_one_sentence_on_stderr_with_status_2(raising, capsys, error, sentence):
    raising(error)
    assert program.run(["flow", "ps"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", sentence)


@pytest.mark.req("K71")
def test_an_error_in_json_mode_is_an_object_on_stderr(raising, capsys):
    raising(UsageError("no script; name one"))
    assert program.run(["flow", "ps", "--json"]) == 2
    assert json.loads(capsys.readouterr().err) == {"error": "no script; name one", "reason": "usage"}


def test_ctrl_c_is_status_130_without_a_traceback(raising, capsys):
    raising(click.Abort())
    assert program.run([]) == 130
    assert capsys.readouterr().err == ""


def test_a_fault_of_the_program_is_neither_status_1_nor_2(raising, capsys):
    raising(KeyError("unthought of"))
    assert program.run([]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.req("K71")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["wroker"], "crw: 'crw wroker' is no command; did you mean 'crw worker'?\n"),
        (["--colour"], "crw: no such option '--colour'; see 'crw --help'\n"),
    ],
)
def test_an_unusable_command_line_says_where_to_read_on(capsys, arguments, sentence):
    assert program.run(arguments) == 2
    assert capsys.readouterr().err == sentence


def test_help_imports_no_command_and_no_library_of_a_command():
    listed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from scheduler.cli.main import run; run(['--help']);"
            "print(sorted(m for m in sys.modules if m.split('.')[0] in ('sqlalchemy', 'celery', 'rich', 'pydantic')))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert listed.endswith("[]\n")
    assert "one scheduler process" in listed


@pytest.mark.req("K71")
def test_a_disk_that_is_full_is_no_fault_of_the_program(raising, capsys):
    raising(OSError(errno.ENOSPC, "No space left on device"))
    assert program.run(["flow", "ps"]) == 2
    assert "free space and try again" in capsys.readouterr().err


@pytest.mark.req("K71")
def test_a_name_that_no_file_can_have_is_refused(capsys):
    assert program.run(["flow", "check", "a" * 300 + ".py"]) == 2
    assert "shorten it" in capsys.readouterr().err


def test_another_error_of_the_system_is_one(raising, capsys):
    raising(OSError(errno.EBADF, "Bad file descriptor"))
    assert program.run(["flow", "ps"]) == 70
    assert "Traceback" in capsys.readouterr().err


def crw_in_a_shell(line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `crw` is the program; the status is the program's own."""
    crw = f'crw() {{ {sys.executable} -m scheduler.cli.main "$@"; }}'
    argv = ["bash", "-c", f"{crw}; {line}; exit ${{PIPESTATUS[0]}}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("command", ["flow check --json FLOW", "flow --help"])
def test_a_reader_that_went_away_is_no_fault(tmp_path, command):
    flow = tmp_path / "flow.py"
    flow.write_text("async def main(flow, args):\n    return 1\n")
    # What `true` leaves unread is written at the very end of a command as short as these.
    ended = crw_in_a_shell(f"crw {command.replace('FLOW', str(flow))} | (exec <&-; sleep 0.1)")
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_command_whose_streams_are_closed_does_what_it_does(tmp_path, closed):
    flow = tmp_path / "flow.py"
    flow.write_text("async def main(flow, args):\n    return 1\n")
    ended = crw_in_a_shell(f"crw flow check {flow} {closed}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_batch_from_a_standard_input_that_is_closed_has_no_line():
    ended = crw_in_a_shell("crw flow batch - <&-")
    assert ended.returncode == 2
    assert ended.stderr == "crw: the batch has no line; write one JSON object a run\n"


def test_output_that_finds_no_room_is_said_once_and_in_the_status(tmp_path):
    flow = tmp_path / "flow.py"
    flow.write_text("async def main(flow, args):\n    return 1\n")
    ended = crw_in_a_shell(f"PYTHONUNBUFFERED= crw flow check {flow} > /dev/full")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1 and "free space and try again" in ended.stderr
