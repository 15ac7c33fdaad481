"""Start a scheduler: `python -m scheduler.service`, with the settings in force.

Source: design of the farm, "Processes"; rules of the protocol, 13.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from scheduler.alone import Handed
from scheduler.process import Scheduler
from shared.base.errors import BrokerUnavailable, StoreError, StoreUnavailable, UsageError
from shared.base.garbage import collect_seldom
from shared.base.log import configure_logging
from shared.base.patience import wait_for_service
from shared.base.settings import Settings, load_settings
from shared.broker.client import check as check_broker
from shared.journal.database import Database

_HASH_SEED = "0"


async def _serve(settings: Settings, database: Database, broker_url: str, handed: Handed | None) -> int:
    scheduler = Scheduler(settings, database, broker_url, handed)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, scheduler.stop)
    return await scheduler.serve()


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
    return asyncio.run(_serve(settings, database, broker_url, handed))


if __name__ == "__main__":
    sys.exit(main())
