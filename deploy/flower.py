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
import secrets
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from flower.app import Flower
from flower.options import options
from flower.urls import settings as flower_urls

from shared.base.errors import BrokerUnavailable, SettingsError, UsageError
from shared.base.log import configure_logging, get_logger
from shared.base.settings import FlowerSettings, Settings, load_settings
from shared.broker.app import make_app
from shared.broker.client import check

# What the table shows: role or op, then run, node and label; the long id comes last.
COLUMNS = "name,kwargs,state,worker,received,runtime,routing_key,uuid"
WAIT_FOR_BROKER_SECONDS = 60.0


def run_flower(settings: Settings) -> None:
    """Serve Flower until SIGTERM or Ctrl-C.

    Raises:
        SettingsError: no broker or no password is configured.
        BrokerUnavailable: the broker did not answer for a minute.
        UsageError: the address cannot be bound.
    """
    if not settings.broker_url:
        raise SettingsError("Flower needs the broker's address: set broker_url or CRW_BROKER_URL")
    flower = settings.flower
    if not flower.password:
        raise SettingsError(
            "Flower runs behind a password only: set CRW_FLOWER__PASSWORD, best from a file of mode 0600"
        )
    _wait_for_broker(settings.broker_url)
    _set_options(flower)
    application = Flower(capp=make_app(settings.broker_url), options=options, **flower_urls)
    try:
        port = application.start_http_server()
    except OSError as error:
        raise UsageError(
            f"Flower cannot listen on {flower.address}:{flower.port} ({error.strerror}): set flower.port to a free one"
        ) from None
    get_logger().info("flower_started", address=flower.address, port=port)
    signal.signal(signal.SIGTERM, _stop)
    try:
        application.start()
    except (KeyboardInterrupt, SystemExit):
        application.stop()


def load_or_make_password(path: Path) -> tuple[str, bool]:
    """The password kept in `path` (mode 0600), and whether it was made just now."""
    try:
        return path.read_text(encoding="ascii").strip(), False
    except FileNotFoundError:
        password = secrets.token_urlsafe(18)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(password + "\n")
        return password, True


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


def main() -> None:
    """`python -m deploy.flower`: Flower with the settings in force; bad input gives one sentence and status 2."""
    try:
        settings = load_settings()
        configure_logging("flower", settings.log_level)
        run_flower(settings)
    except (UsageError, BrokerUnavailable) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
