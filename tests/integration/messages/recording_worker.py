"""A worker with the farm's Celery settings whose one task writes down that it ran: the witness of these tests.

A call named `nap-<seconds>-…` takes that long. Shape of a line of the record: `start|end <call>`.
"""

from __future__ import annotations

import os
import time

from shared.broker.app import make_app
from shared.broker.names import TASK

app = make_app(os.environ["CRW_BROKER_URL"])


def _write(word: str, call_id: str) -> None:
    with open(os.environ["CRW_TEST_RECORD"], "a", encoding="ascii") as record:
        record.write(f"{word} {call_id}\n")


@app.task(name=TASK)
def call(call_id: str, request_id: str) -> None:
    _write("start", call_id)
    if call_id.startswith("nap-"):
        time.sleep(float(call_id.split("-")[1]))
    _write("end", call_id)
