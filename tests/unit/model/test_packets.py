"""Packets: the digest is over the data, the text is a fixed template."""

import pytest

from shared.model import packets


@pytest.mark.req("DEF11")
def test_equal_data_has_an_equal_digest_and_the_kind_is_part_of_it():
    assert packets.task("do it").digest() == packets.task("do it").digest()
    assert packets.task("do it").digest() != packets.task("do it", kept=["refs/x"]).digest()
    assert packets.repair(["x"]).digest() != packets.fix(["x"], []).digest()


def test_a_task_packet_names_the_refs_that_keep_earlier_work():
    text = packets.task("Write it.", node="a", kept=["refs/crw/flow/r/pending/c"]).render()
    assert text.startswith("Write it.") and "refs/crw/flow/r/pending/c" in text
    assert packets.task("Write it.").render() == "Write it.\n"


@pytest.mark.req("O20")
def test_failed_tests_are_rendered_into_the_fix_packet():
    failed = [{"job": "unit", "step": "pytest", "tests": ["test_a"], "packages": [], "tail": "assert 1 == 2"}]
    text = packets.fix([], failed).render()
    assert "unit / pytest: test_a" in text and "assert 1 == 2" in text


def test_failed_tests_are_additive():
    assert "Failed" not in packets.fix(["too slow"], []).render()


def test_the_other_packets_say_what_they_are_about():
    assert "$.a is missing" in packets.repair(["$.a is missing"]).render()
    assert "deadline" in packets.go_on("deadline").render()
    said = packets.checkpoint([{"input": "plan", "answer": {"nodes": 1}}]).render()
    assert "plan" in said and '{"nodes": 1}' in said


@pytest.mark.req("R35")
def test_a_checkpoint_is_bounded_and_keeps_the_first_turn_and_the_newest():
    turns = [{"input": f"ask {number} " + "x" * 1000, "answer": "y" * 1000} for number in range(50)]
    packet = packets.checkpoint(turns, limit=10_000)
    said = packet.render()
    assert len(said) < 12_000 and packet.data["omitted"] == 46
    assert said.index("ask 0 ") < said.index("(46 turns are left out here.)") < said.index("ask 49 ")
    long = packets.checkpoint([{"input": "x" * 900_000, "answer": "y"}]).render()
    assert len(long) < packets.CHECKPOINT_LIMIT_CHARACTERS and "characters left out" in long
    assert packets.checkpoint([], node="n1").render().strip().endswith(packets.ASKED_NOW)
