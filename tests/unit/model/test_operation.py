"""A turn of ours is known by its client id, and where the host dropped that, by its first line."""

from __future__ import annotations

import pytest

from shared.model.operation import marker_line, parse_operation, read_marker, turn_operation

CALL = "c" + "a" * 24
OTHER = "c" + "b" * 24


@pytest.mark.req("A06", "S12")
def test_an_operation_names_its_call_and_ordinal_and_reads_back() -> None:
    assert turn_operation(CALL, 12) == f"{CALL}/t12"
    assert parse_operation(f"{CALL}/t12") == (CALL, 12)
    assert marker_line(f"{CALL}/t12") == f"crw-flow-op: {CALL}/t12"


@pytest.mark.parametrize("text", [None, "", CALL, f"{CALL}/t0", f"{CALL}/t01", f"{CALL}/t1 ", f"x{CALL}/t1", "c1/t1"])
def test_what_only_looks_like_an_operation_is_none(text: str | None) -> None:
    assert parse_operation(text) is None


@pytest.mark.req("S12")
@pytest.mark.parametrize(
    ("client_id", "message", "read"),
    [
        (f"{CALL}/t1", marker_line(f"{OTHER}/t2"), f"{CALL}/t1"),
        (None, marker_line(f"{OTHER}/t2") + "\nDo it.", f"{OTHER}/t2"),
        ("some-client", marker_line(f"{OTHER}/t2"), f"{OTHER}/t2"),
        (None, "Do it.\n" + marker_line(f"{OTHER}/t2"), None),
        (None, f"{OTHER}/t2", None),
        (None, None, None),
    ],
)
def test_the_client_id_counts_first_and_then_the_first_line_alone(
    client_id: str | None, message: str | None, read: str | None
) -> None:
    assert read_marker(client_id, message) == read
