"""Claims and rows on real Postgres beside a plain model: whatever comes in whatever order, both say the same."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shared.base.errors import RightLost, RunStopping
from shared.journal import claims, hosts, read, runs
from shared.journal.append import Claim, JournalWriter, OpenCall, RunRows
from shared.journal.claims import Denied
from shared.journal.database import Database
from shared.model.events import INTENT_WORDS, SENDING_WORDS, TERMINAL_WORDS
from shared.model.rows import CallRow, NewCallRow
from tests.journal_farm import Farm

_HOSTS = ("h1", "h2")
_WORDS = st.sampled_from(["placed", "turn_requested", "turn_started", "interrupt_requested", "completed", "held"])
_CHOICE = st.integers(0, 999)


@dataclass
class _Call:
    """What the model knows of a call."""

    opened: OpenCall
    state: str = "open"
    fence: int = 0
    worker: str | None = None
    grant: str | None = None
    sent_host: str | None = None
    crashes: int = 0
    # Every claim that was ever granted; only the newest, and only while the call is claimed, gives a right.
    granted: list[Claim] = field(default_factory=list)


class ClaimMachine(RuleBasedStateMachine):
    """One run, two hosts, calls that come and go."""

    farm: Farm
    writers: Mapping[str, JournalWriter]

    def __init__(self) -> None:
        super().__init__()
        self.lease = self.farm.new_run()
        self.stop = False
        self.calls: list[_Call] = []
        self.living: dict[str, str] = {}
        self.expired: set[str] = set()
        for host in _HOSTS:
            self._incarnate(host)

    def teardown(self) -> None:
        for worker in self.living.values():
            hosts.stop_worker(self.farm.database, worker)

    def _incarnate(self, host: str) -> None:
        self.living[host] = self.farm.new_worker(host)

    def _free(self, worker: str, crashes: int) -> None:
        for call in self.calls:
            if call.state == "claimed" and call.worker == worker:
                # Freeing takes the right away by itself: the next grant's fence is two above.
                call.state, call.fence = "stranded" if call.sent_host else "open", call.fence + 1
                call.crashes += crashes

    def _pick(self, number: int) -> _Call:
        return self.calls[number % len(self.calls)]

    # -- what may happen --------------------------------------------------------------------------

    @precondition(lambda self: len(self.calls) < 4)
    @rule()
    def open(self) -> None:
        member = self.farm.opening(self.lease)
        sent = self.farm.writer.submit(RunRows(self.lease, opens=(member,)))
        if self.stop:
            with pytest.raises(RunStopping):
                sent.result()
        else:
            sent.result()
            self.calls.append(_Call(member))

    @precondition(lambda self: self.calls)
    @rule(number=_CHOICE, host=st.sampled_from(_HOSTS))
    def claim(self, number: int, host: str) -> None:
        call, worker = self._pick(number), self.living[host]
        grant = secrets.token_hex(4)
        granted = self.farm.ask(worker, call.opened, grant)
        if not self._may_claim(call, host):
            assert isinstance(granted, Denied), granted
            return
        assert isinstance(granted, Claim), granted
        assert granted.sent == (call.sent_host is not None) and granted.crashes == call.crashes
        call.state, call.worker, call.grant, call.fence = "claimed", worker, grant, call.fence + 1
        assert granted.fence == call.fence
        call.granted.append(granted)

    def _may_claim(self, call: _Call, host: str) -> bool:
        if call.state == "stranded":
            return call.sent_host == host
        return call.state == "open" and not self.stop

    @precondition(lambda self: any(call.state == "claimed" for call in self.calls))
    @rule(number=_CHOICE, host=st.sampled_from(_HOSTS))
    def deliver_again(self, number: int, host: str) -> None:
        call = self._pick(number)
        if call.state != "claimed" or call.grant is None:
            return
        again = self.farm.ask(self.living[host], call.opened, call.grant)
        if self.living[host] == call.worker:
            # The same grant asked again, since its answer was lost: the same right.
            assert isinstance(again, Claim) and again.fence == call.fence
            assert again.rows_written == call.granted[-1].rows_written
        else:
            assert again == Denied("held")

    @precondition(lambda self: any(call.granted for call in self.calls))
    @rule(number=_CHOICE, which=_CHOICE, word=_WORDS)
    def append(self, number: int, which: int, word: str) -> None:
        call = self._pick(number)
        if not call.granted:
            return
        held = call.granted[which % len(call.granted)]
        holds = call.state == "claimed" and held.fence == call.fence
        refused = holds and self.stop and word in INTENT_WORDS and word != "interrupt_requested"
        try:
            # Whoever writes under a right that is gone is told so, whichever host it writes from.
            self.writers[self._host_of(call.worker)].append(held, NewCallRow(word))
        except RightLost:
            assert not holds
            return
        except RunStopping:
            assert refused
            return
        assert holds and not refused
        if word in SENDING_WORDS:
            call.sent_host = self._host_of(call.worker)
        if word in TERMINAL_WORDS:
            call.state = "ended"

    def _host_of(self, worker: str | None) -> str:
        return next((host for host, living in self.living.items() if living == worker), _HOSTS[0])

    @precondition(lambda self: any(call.state == "claimed" for call in self.calls))
    @rule(number=_CHOICE)
    def release(self, number: int) -> None:
        call = self._pick(number)
        if not call.granted:
            return
        given = claims.release(self.farm.database, call.granted[-1])
        assert given == (call.state == "claimed" and call.sent_host is None)
        if given:
            call.state, call.fence = "open", call.fence + 1

    @rule(host=st.sampled_from(_HOSTS))
    def renew(self, host: str) -> None:
        connection = self.farm.database.connect_raw()
        assert hosts.beat(connection, self.living[host], None) is not None
        connection.close()
        self.expired.discard(host)

    @rule(host=st.sampled_from(_HOSTS))
    def expire(self, host: str) -> None:
        with self.farm.database.transaction() as connection:
            connection.exec_driver_sql(
                "update farm_workers set lease_until = clock_timestamp() - interval '1 s' where worker_id = %(worker)s",
                {"worker": self.living[host]},
            )
        self.expired.add(host)

    @rule()
    def sweep(self) -> None:
        for suspect in hosts.suspects(self.farm.database):
            hosts.bury(self.farm.database, suspect.worker_id, suspect.beat)
        hosts.free_dead(self.farm.database)
        for host in self.expired:
            dead = self.living[host]
            self._free(dead, 1)
            connection = self.farm.database.connect_raw()
            assert hosts.beat(connection, dead, None) is None, "who was declared dead is told so"
            connection.close()
            for call in self.calls:
                assert self.farm.ask(dead, call.opened) == Denied("dead")
            self._incarnate(host)
        self.expired.clear()

    @rule(host=st.sampled_from(_HOSTS))
    def crash(self, host: str) -> None:
        self._free(self.living[host], 1)
        self._incarnate(host)
        self.expired.discard(host)

    @rule()
    def cancel(self) -> None:
        runs.set_stop(self.farm.database, self.lease.run_id, "cancel")
        self.stop = True

    @precondition(lambda self: self.stop)
    @rule()
    def withdraw(self) -> None:
        self.farm.writer.submit(RunRows(self.lease, withdraw=True)).result()
        for call in self.calls:
            if call.state == "open":
                # A withdrawal takes the right from whoever may have had it.
                call.state, call.fence = "withdrawn", call.fence + 1

    # -- what always holds --------------------------------------------------------------------------

    @invariant()
    def claims_are_as_the_model_says(self) -> None:
        statement = "select call_id, state, fence::int, crashes from call_claims where run_id = %(run)s"
        found = {call: rest for call, *rest in self.farm.rows(statement, run=self.lease.run_id)}
        assert found == {call.opened.call_id: [call.state, call.fence, call.crashes] for call in self.calls}

    @invariant()
    def rows_are_dense_and_end_each_attempt_once(self) -> None:
        rows = read.load(self.farm.database, self.lease.run_id)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        for call in self.calls:
            own = [row for row in rows if isinstance(row, CallRow) and row.call_id == call.opened.call_id]
            ends = [row for row in own if row.event in TERMINAL_WORDS]
            assert len(ends) == (call.state in ("ended", "withdrawn")) and (not ends or ends[0] is own[-1])
            fences = [row.fence for row in own if row.fence is not None]
            assert fences == sorted(fences)

    @invariant()
    def what_nobody_holds_is_to_be_published(self) -> None:
        waiting = {call for (call,) in self.farm.rows("select call_id from outbox where run_id = %(run)s",
                                                      run=self.lease.run_id)}  # fmt: skip
        assert waiting == {call.opened.call_id for call in self.calls if call.state in ("open", "stranded")}


@pytest.mark.req("RULE3", "RULE22", "RULE28", "J03")
def test_claims_rows_leases_and_stops_in_any_order_keep_to_the_model(database: Database, writer: JournalWriter) -> None:
    other = JournalWriter(database, host="h2")
    members = {"farm": Farm(database, writer), "writers": {"h1": writer, "h2": other}}
    bounds = settings(
        max_examples=20, stateful_step_count=30, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(type("Machine", (ClaimMachine,), members), settings=bounds)
    other.close()
