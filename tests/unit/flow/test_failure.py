"""Whatever a script raises, its failure can be told: the run ends, and its scheduler lives."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.flow.failure import describe_failure
from scheduler.flow.script import Script


def told(body: str) -> tuple[str, str]:
    """What is said of a script whose main has this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    script = Script("rfailure", "flow.py", {"flow.py": f"async def main(flow, args):\n{lines}".encode()})
    main = script.load()
    failed: BaseException | None = None
    try:
        asyncio.run(main(None, None))
    except Exception as error:  # noqa: BLE001 - whatever the script raises
        failed = error
    said = describe_failure(failed, script) if failed is not None else ("", "")
    script.unload()
    return said


ITSELF = """\
try:
    raise ValueError("one")
except ValueError as error:
    raise error from error
"""
EACH_OTHER = """\
try:
    raise ValueError("one")
except ValueError as first:
    try:
        raise KeyError("two") from first
    except KeyError as second:
        raise first from second
"""


@pytest.mark.parametrize("body", [ITSELF, EACH_OTHER], ids=["itself", "each other"])
def test_errors_that_are_each_other_s_cause_are_told_once(body: str) -> None:
    message, traceback = told(body)
    assert message.startswith("ValueError: one (flow.py line ")
    assert traceback.count("ValueError: one") == 1


def test_an_error_that_exits_when_it_is_asked_what_it_says_is_told_by_its_class() -> None:
    message, _ = told("class Bad(Exception):\n    def __str__(self):\n        raise SystemExit(3)\nraise Bad()")
    assert message == "Bad (flow.py line 5)"


def test_a_long_chain_of_causes_is_told_as_far_as_anybody_reads() -> None:
    message, traceback = told(
        "error = None\nfor number in range(5000):\n    try:\n        raise ValueError(number) from error\n"
        "    except ValueError as caught:\n        error = caught\nraise error"
    )
    assert message.startswith("ValueError: 4999 ")
    assert traceback.count("while handling:") < 100
