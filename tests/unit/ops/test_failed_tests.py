"""What is read from the output of a verify command that failed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.ops.failed_tests import (
    PROFILES,
    TAIL_BYTES,
    TAIL_LINES,
    clean_text,
    failed_step,
    make_reason,
    pick_profile,
    tail_of,
)

GO = """=== RUN   TestAdd
--- FAIL: TestAdd (0.00s)
    add_test.go:9: got 3
    add_test.go:10: want 4
=== RUN   TestTable
--- FAIL: TestTable (0.00s)
    --- FAIL: TestTable/empty (0.00s)
        table_test.go:4: no rows
FAIL
FAIL\texample.org/sum\t0.004s
ok  \texample.org/other\t0.002s
FAIL\texample.org/broken [build failed]
FAIL
"""

PYTEST = """============ FAILURES ============
E   assert 1 == 2
============ short test summary info ============
FAILED tests/test_a.py::test_one - assert 1 == 2
FAILED tests/test_a.py::TestB::test_two[a - b] - ValueError: no
FAILED tests/test_a.py::test_one - assert 1 == 2
ERROR tests/test_broken.py - ImportError: no module
2 failed, 1 error in 0.1s
"""


@pytest.mark.req("O18", "K11")
def test_go_output_names_tests_subtests_and_packages_once_each() -> None:
    entry = failed_step("verify", "command", GO, PROFILES["go"])
    assert entry["tests"] == ["TestAdd", "TestTable", "TestTable/empty"]
    assert entry["packages"] == ["example.org/sum", "example.org/broken"]
    assert (entry["job"], entry["step"]) == ("verify", "command")


@pytest.mark.req("O18", "K11")
def test_pytest_output_names_tests_and_files() -> None:
    entry = failed_step("verify", "command", PYTEST, PROFILES["pytest"])
    assert entry["tests"][0] == "tests/test_a.py::test_one" and len(entry["tests"]) == 2
    assert entry["packages"] == ["tests/test_a.py", "tests/test_broken.py"]


@pytest.mark.req("O19")
def test_a_reason_without_a_test_or_package_line_leaves_both_lists_empty() -> None:
    entry = failed_step("verify", "command", "make: *** [all] Error 2\n", PROFILES["go"])
    assert (entry["tests"], entry["packages"], entry["tail"]) == ([], [], "make: *** [all] Error 2")


@pytest.mark.req("K11")
def test_the_profile_is_the_one_named_else_the_one_that_finds_something() -> None:
    assert pick_profile(None, GO) is PROFILES["go"]
    assert pick_profile(None, PYTEST) is PROFILES["pytest"]
    assert pick_profile(None, "Error 2") is PROFILES["plain"]
    assert pick_profile("plain", GO) is PROFILES["plain"]


@pytest.mark.req("O19")
def test_a_short_reason_is_its_own_tail() -> None:
    assert tail_of(GO.strip(), PROFILES["go"]) == GO.strip()


@pytest.mark.req("O19")
def test_a_long_reason_is_kept_by_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert tail_of("\n".join(lines), PROFILES["plain"]).split("\n") == lines[-20:]


@pytest.mark.req("O19")
def test_a_reason_that_leads_with_a_marked_block_keeps_its_first_ten_lines_and_its_end() -> None:
    block = [f"--- FAIL: Test{number} (0.00s)" for number in range(15)]
    rest = [f"line {number}" for number in range(50)]
    tail = tail_of("\n".join([*block, "...", *rest]), PROFILES["go"]).split("\n")
    assert tail == [*block[:10], "...", *rest[-9:]]


@pytest.mark.req("O19", "K11")
def test_the_marked_block_belongs_to_its_profile() -> None:
    block = [f"--- FAIL: Test{number} (0.00s)" for number in range(15)]
    rest = [f"line {number}" for number in range(50)]
    tail = tail_of("\n".join([*block, "...", *rest]), PROFILES["plain"]).split("\n")
    assert tail == rest[-20:]


@pytest.mark.req("O19")
def test_a_block_of_long_lines_is_cut_at_its_bytes() -> None:
    block = [f"--- FAIL: Test{number} " + "x" * 300 for number in range(8)]
    tail = tail_of("\n".join([*block, "...", *["y" * 100] * 40]), PROFILES["go"])
    kept = tail.split("\n...\n")[0]
    assert kept == "\n".join(block[:3]) and len(tail.encode()) <= TAIL_BYTES


@pytest.mark.req("O18")
def test_failing_lines_early_in_a_long_output_lead_its_tail() -> None:
    text = GO + "\n".join(f"noise {number}" for number in range(500))
    tail = failed_step("verify", "command", text, PROFILES["go"])["tail"].split("\n")
    assert tail[:3] == ["--- FAIL: TestAdd (0.00s)", "    add_test.go:9: got 3", "    add_test.go:10: want 4"]
    assert tail[6] == "..." and tail[-1] == "noise 499" and len(tail) == TAIL_LINES


def test_colours_and_bytes_that_are_no_text_do_not_hide_a_name() -> None:
    text = clean_text(b"\x1b[31mFAILED\x1b[0m a.py::test_x - \xff\r\n\0")
    assert pick_profile(None, text) is PROFILES["pytest"] and "\x1b" not in text and "\0" not in text


@pytest.mark.req("O18", "O19")
@given(st.text(), st.sampled_from(sorted(PROFILES)), st.booleans())
def test_no_text_makes_a_tail_larger_than_its_bounds(text: str, name: str, repeated: bool) -> None:
    grown = (GO + text + "\n") * 30 if repeated else text
    tail = tail_of(make_reason(grown, PROFILES[name]), PROFILES[name])
    assert len(tail.split("\n")) <= TAIL_LINES and len(tail.encode("utf-8", "surrogatepass")) <= TAIL_BYTES
