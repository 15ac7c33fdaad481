"""Wake-ups reach who subscribed, survive a broker's restart, and hurt nobody when it is away."""

import time

import pytest

from deploy.embedded import Valkey
from shared.base.errors import BrokerUnavailable, SettingsError
from shared.broker.client import check
from shared.broker.wakeups import Wakeups
from tests.waiting import wait_until


@pytest.mark.req("RULE48")
def test_what_is_told_after_subscribing_is_heard(valkey: Valkey):
    heard: list[str] = []
    hearing, telling = Wakeups(valkey.url), Wakeups(valkey.url)
    hearing.subscribe(heard.append)
    telling.tell("r1")
    wait_until(lambda: heard == ["r1"], 2, "the wake-up")
    telling.close()
    hearing.close()


def test_wakeups_come_back_after_the_broker_restarted(tmp_path):
    with Valkey(tmp_path) as server:
        heard: list[str] = []
        wakeups = Wakeups(server.url)
        wakeups.subscribe(heard.append)
        server.kill()
        started = time.monotonic()
        wakeups.tell("lost")
        assert time.monotonic() - started < 0.1
        server.start()

        def tell_again():
            wakeups.tell("r2")
            return "r2" in heard

        wait_until(tell_again, 10, "a wake-up after the restart")
        wakeups.close()


def test_an_absent_broker_is_named_within_its_time(tmp_path):
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="CRW_BROKER_URL"):
        check(f"redis+socket://{tmp_path}/nothing.sock", timeout_seconds=1.0)
    assert time.monotonic() - started < 2
    with pytest.raises(SettingsError, match="redis://host:6379/0"):
        check("amqp://guest:secret@localhost//")
