"""Flower for the ops team: the farm's calls as tasks, read-only and behind a password.

Every call is one row named by its role or op (`crw.agent.executor`, `crw.op.verify`);
run, node, role and label stand in its `kwargs`, which Flower searches. Flower holds
what it heard since it started and nothing else: the journal is the truth, so nothing
is kept on disk, and no button of Flower works (a revoked id would be dropped by every
worker that heard it). The password comes from the settings and never enters a command line.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from flower.app import Flower
from flower.options import options
from flower.urls import settings as flower_urls
from flower.views.monitor import Metrics
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import authenticated

from shared.base.errors import BrokerUnavailable, SettingsError, UsageError
from shared.base.log import configure_logging, get_logger
from shared.base.settings import FlowerSettings, Settings, load_settings
from shared.broker.app import make_app
from shared.broker.client import check

# What the table shows: role or op, then run, node and label; the long id comes last.
COLUMNS = "name,kwargs,state,worker,received,runtime,routing_key,uuid"
WAIT_FOR_BROKER_SECONDS = 60.0


def run_flower(settings: Settings, listening: socket.socket | None = None) -> None:
    """Serve Flower until SIGTERM or Ctrl-C.

    Args:
        listening: a socket that is bound already; else the settings' address and port are bound here.

    Raises:
        SettingsError: no broker or no password is configured.
        BrokerUnavailable: the broker did not answer for a minute.
        UsageError: the address cannot be bound.
    """
    if not settings.broker_url:
        raise SettingsError("Flower needs the broker's address: set broker_url or CRW_BROKER_URL")
    flower = settings.flower
    if not flower.password:
        raise SettingsError("Flower runs behind a password only: set CRW_FLOWER__PASSWORD")
    _wait_for_broker(settings.broker_url)
    _set_options(flower)
    application = Flower(capp=make_app(settings.broker_url), options=options, **flower_urls)
    # Flower serves these to anybody, and they name hosts and roles.
    application.add_handlers(".*", [("/metrics", _Metrics)])
    sockets = [listening] if listening is not None else _bind(flower)
    HTTPServer(application).add_sockets(sockets)
    get_logger().info("flower_started", address=flower.address, port=sockets[0].getsockname()[1])
    signal.signal(signal.SIGTERM, _stop)
    try:
        application.start()
    except (KeyboardInterrupt, SystemExit):
        application.stop()


class _Metrics(Metrics):  # type: ignore[misc]
    """Flower's metrics, behind the password like all else that tells of the farm."""

    @authenticated
    async def get(self) -> None:
        await super().get()


def _bind(flower: FlowerSettings) -> list[socket.socket]:
    try:
        return bind_sockets(flower.port, address=flower.address)
    except OSError as error:
        raise UsageError(
            f"Flower cannot listen on {flower.address}:{flower.port} ({error.strerror}): set flower.port to a free one "
            "and flower.address to one of this machine"
        ) from None


def _set_options(flower: FlowerSettings) -> None:
    values: dict[str, Any] = {
        "address": flower.address,
        "port": flower.port,
        "basic_auth": [f"{flower.user}:{flower.password}"],
        "read_only": True,
        "persistent": False,
        "tasks_columns": COLUMNS,
        "max_tasks": 100_000,
        "logging": "warning",
    }
    for name, value in values.items():
        setattr(options, name, value)
    # An open API would make the password a decoration.
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    logging.getLogger("tornado.access").propagate = False


def _wait_for_broker(broker_url: str) -> None:
    end = time.monotonic() + WAIT_FOR_BROKER_SECONDS
    while True:
        try:
            check(broker_url, timeout_seconds=5)
            return
        except BrokerUnavailable as error:
            if time.monotonic() > end:
                raise
            get_logger().warning("waiting_for_broker", reason=str(error))
            time.sleep(1)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def main(arguments: Sequence[str]) -> None:
    """`python -m deploy.flower [FD]`: Flower with the settings in force, on the listening socket FD if one is given.

    Bad input gives one sentence and status 2.
    """
    try:
        settings = load_settings()
        configure_logging("flower", settings.log_level)
        run_flower(settings, socket.socket(fileno=int(arguments[0])) if arguments else None)
    except (UsageError, BrokerUnavailable) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main(sys.argv[1:])
