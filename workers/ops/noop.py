"""An op without effect, for tests of the farm and for measuring what a position costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from shared.base.errors import FlowError
from workers.claim import CallStopped
from workers.ops.op import OpContext, OpResult


class Noop:
    """Returns what it was given, after `seconds` if told to.

    Registered by whoever starts a farm for tests or measurements, never by the product.
    """

    name = "noop"

    def parse(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(arguments.get("seconds", 0), (int, float)):
            raise FlowError("noop: seconds is a number")
        return arguments

    def run(self, context: OpContext) -> OpResult:
        end = time.monotonic() + context.arguments.get("seconds", 0)
        while (left := end - time.monotonic()) > 0:
            if reason := context.should_stop():
                raise CallStopped(reason)
            time.sleep(min(0.05, left))
        return OpResult({"value": context.arguments.get("value")})
