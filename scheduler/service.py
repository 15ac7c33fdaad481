"""Start a scheduler: `python -m scheduler.service`, with the settings in force.

Source: design of the farm, "Processes"; rules of the protocol, 13.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from scheduler.alone import Handed
from scheduler.ending import Grace, leave
from scheduler.process import Scheduler
from shared.base.errors import BrokerUnavailable, StoreError, StoreUnavailable, UsageError
from shared.base.garbage import collect_seldom
from shared.base.log import configure_logging, get_logger
from shared.base.patience import wait_for_service
from shared.base.settings import Settings, load_settings
from shared.broker.client import check as check_broker
from shared.journal.database import Database

_HASH_SEED = "0"
# As for a duty that broke: whoever watches starts another one.
_BROKE_STATUS = 1


async def _serve(
    settings: Settings, database: Database, broker_url: str, handed: Handed | None, grace: Grace
) -> NoReturn:
    scheduler = Scheduler(settings, database, broker_url, handed, on_ending=grace.begin)
    loop = asyncio.get_running_loop()

    # Not the loop's own handlers: they run in the loop, which a script may have blocked.
    def stop(_number: int, _frame: FrameType | None) -> None:
        grace.begin()
        loop.call_soon_threadsafe(scheduler.stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    leave(await scheduler.serve())


def main() -> int:
    """Run a scheduler with the settings in force; the exit status is 2 for what a person has to mend."""
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # A replay has to meet sets in the order of the first time, in whatever process it happens.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, sys.orig_argv)
    collect_seldom()
    try:
        handed = Handed.parse(sys.argv[1:])
        settings = load_settings()
        configure_logging("scheduler", settings.log_level)
        if not settings.database_url or not settings.broker_url:
            missing = "CRW_DATABASE_URL" if not settings.database_url else "CRW_BROKER_URL"
            raise UsageError(f"a scheduler needs to know where its services are: set {missing}")
        database = Database(settings.database_url, process="scheduler", pool_size=10)
        wait_for_service(database.check_writes, StoreUnavailable)
        broker_url = settings.broker_url
        wait_for_service(lambda seconds: check_broker(broker_url, seconds), BrokerUnavailable)
    except (UsageError, StoreError) as error:
        print(f"crw scheduler: {error}", file=sys.stderr)
        return 2
    # Below a scheduler that waits for this one to end, the time is shorter than that one's.
    grace = Grace(settings.drain_seconds if handed is None else settings.drain_seconds / 2)
    try:
        # Not closed: the end of a loop waits for all that a script left in it.
        asyncio.Runner().run(_serve(settings, database, broker_url, handed, grace))
    except BaseException:  # noqa: BLE001 - SystemExit from a script's callback, too: the supervisor has to hear of it
        grace.begin()
        with contextlib.suppress(OSError):  # nobody reads it
            get_logger().exception("loop_broke")
    leave(_BROKE_STATUS)


if __name__ == "__main__":
    sys.exit(main())
