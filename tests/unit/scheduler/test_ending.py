"""A process that has to end does so, whatever became of whoever reads its output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCENE = """
import sys, time
from scheduler import ending
from shared.base.log import configure_logging

ending._LEAST_SECONDS = ending._LAST_WORDS_SECONDS = 0.3
configure_logging("scheduler")
grace = ending.Grace(0)
grace.begin()
while True:
    {blocks}
"""


def end_of(blocks: str, **streams: int) -> int:
    child = subprocess.Popen([sys.executable, "-c", _SCENE.format(blocks=blocks)], **streams)
    try:
        return child.wait(20)
    finally:
        child.kill()
        child.wait()


@pytest.mark.req("RULE24")
def test_a_log_that_nobody_reads_any_more_does_not_keep_a_process_from_its_end() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert end_of("time.sleep(1)", stderr=writer) == 4
    finally:
        os.close(writer)


@pytest.mark.req("RULE24")
def test_a_script_that_waits_for_a_reader_of_its_words_does_not_keep_a_process_from_its_end() -> None:
    reader, writer = os.pipe()
    try:
        assert end_of("sys.stderr.write('x' * 4096)", stderr=writer) == 4
    finally:
        os.close(reader)
        os.close(writer)
