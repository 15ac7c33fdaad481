"""A plain Redis client for the URLs that Celery takes, and the check that the broker answers."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.base.errors import BrokerUnavailable, SettingsError
from shared.base.log import mask_url

_SCHEMES = ("redis", "rediss", "redis+socket")


def connect(broker_url: str, *, timeout_seconds: float = 5.0) -> redis.Redis:
    """A client of the broker; nothing is sent yet.

    Raises:
        SettingsError: the URL is none that the farm can use.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": min(3.0, timeout_seconds),
        "socket_timeout": timeout_seconds,
        "health_check_interval": 25,
        # The client's own retries would hide a broker that is away for seconds; who calls decides.
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        parts = urlsplit(broker_url)
        if parts.scheme == "redis+socket":
            # Celery's way to name a socket: redis+socket:///path?virtual_host=0
            database = int(parse_qs(parts.query).get("virtual_host", ["0"])[0])
            return redis.Redis(unix_socket_path=parts.path, db=database, password=parts.password, **options)
        if parts.scheme in _SCHEMES:
            return redis.Redis.from_url(broker_url, **options)
    except ValueError as error:
        raise SettingsError(f"broker_url {mask_url(broker_url)} does not parse: {error}") from None
    raise SettingsError(
        f"broker_url {mask_url(broker_url)} is none the farm can use; "
        "write redis://host:6379/0 or redis+socket:///path/to/socket?virtual_host=0"
    )


def check(broker_url: str, timeout_seconds: float = 5.0) -> None:
    """Ask the broker once whether it is there.

    Raises:
        BrokerUnavailable: it did not answer within `timeout_seconds`.
        SettingsError: the URL is none that the farm can use.
    """
    end = time.monotonic() + timeout_seconds
    while True:
        client = connect(broker_url, timeout_seconds=max(0.1, end - time.monotonic()))
        try:
            client.ping()
            return
        except redis.exceptions.AuthenticationError as error:
            raise BrokerUnavailable(f"the broker at {mask_url(broker_url)} refuses this login: {error}") from None
        except (redis.exceptions.RedisError, OSError) as error:
            # One more look while there is time: a broker that is starting refuses or says it is loading.
            if time.monotonic() + 0.2 >= end:
                raise BrokerUnavailable(
                    f"no broker answers at {mask_url(broker_url)} ({error}); "
                    "start Redis or Valkey, or set CRW_BROKER_URL"
                ) from None
        finally:
            client.close()
        time.sleep(0.2)
