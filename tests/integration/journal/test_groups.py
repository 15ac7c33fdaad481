"""One group of many members: each row keeps its own number, texts, data and result."""

from __future__ import annotations

import pytest

from shared.journal import read
from shared.journal.append import CallRows, RunRows
from shared.model.rows import CallRow, EventRow, NewCallRow, NewEventRow
from tests.journal_farm import Farm


@pytest.mark.req("J01", "RULE31")
def test_rows_of_two_runs_in_one_group_keep_their_numbers_their_data_and_their_results(farm: Farm) -> None:
    worker = farm.new_worker()
    leases = [farm.new_run(), farm.new_run()]
    held = [farm.claim(worker, farm.open(lease)) for _ in range(2) for lease in leases]
    ends = [NewCallRow("completed", {"n": n}, result=None if n == 1 else b"%d" % n) for n in range(len(held))]
    # Nobody waits for these, so that all of them go with the last one.
    futures = [
        farm.writer.submit(CallRows(claim, (NewCallRow("placed", {"of": n}), end)), wait=False)
        for n, (claim, end) in enumerate(zip(held, ends, strict=True))
    ]
    phases = [RunRows(lease, events=(NewEventRow("phase", {"name": lease.run_id}),)) for lease in leases]
    events = [farm.writer.submit(phases[0], wait=False), farm.writer.submit(phases[1])]
    # Rows 1 and 2 opened the calls.
    assert [future.result().seqs for future in futures] == [(3, 4), (3, 4), (5, 6), (5, 6)]
    assert [future.result().seqs for future in events] == [(7,), (7,)]
    for lease in leases:
        rows = list(read.load(farm.database, lease.run_id))
        assert [row.seq for row in rows] == list(range(1, 8))
        assert isinstance(rows[-1], EventRow) and rows[-1].data == {"name": lease.run_id}
        for n, claim in enumerate(held):
            mine = [row for row in rows[2:6] if isinstance(row, CallRow) and row.call_id == claim.call_id]
            if claim.run_id == lease.run_id:
                assert [row.detail for row in mine] == [{"of": n}, {"n": n}]
                assert [row.result for row in mine] == [None, ends[n].result]


_ODD = [
    "", " ", "  a  ", "\t", "NULL", "null", '"NULL"', "{}", "{a,b}", "()", "(a,b)", ")", "(", ",", ",,", '"', '""',
    "\\", "\\\\", '\\"', '"\\', "\\n", "a\nb", "\n", "\r", "\r\n", "\u2028", "\u0085", "\x0b", "\x0c", "\x1f", "\x7f",
    "'", "''", "E'\\x'", "%s", "%(run)s", "$crw$", "ä", "漢", "😀", "e\u0301", "\ufeff", "\ufffe", "²", "x" * 100_000,
    'a\\",")\n(\'', "t", "True", "1", "\\N",
]  # fmt: skip


@pytest.mark.req("J01", "RULE31")
def test_texts_of_any_kind_stand_in_their_columns_as_they_were_given(farm: Farm) -> None:
    worker, lease = farm.new_worker(), farm.new_run()
    held = farm.claim(worker, farm.open(lease))
    calls = [
        farm.writer.submit(
            CallRows(held, (NewCallRow("placed", {text: [text]}, worktree_path=text, label=text, thread_id=text),)),
            wait=False,
        )
        for text in _ODD
    ]
    events = [
        farm.writer.submit(RunRows(lease, events=(NewEventRow("log", {text: text}, op=text, label=text),)), wait=False)
        for text in _ODD
    ]
    farm.writer.flush()
    seqs = [[future.result().seqs[0] for future in futures] for futures in (calls, events)]
    stored = dict((row.seq, row) for row in read.load(farm.database, lease.run_id))
    for text, call, event in zip(_ODD, *seqs, strict=True):
        row, said = stored[call], stored[event]
        assert isinstance(row, CallRow) and isinstance(said, EventRow)
        assert (row.worktree_path, row.label, row.thread_id, row.detail) == (text, text, text, {text: [text]})
        assert (said.op, said.label, said.data) == (text, text, {text: text})
    columns = farm.rows("select seq, op, label from flow_events where kind = 'log' order by seq")
    assert columns == [(seq, text, text) for seq, text in zip(seqs[1], _ODD, strict=True)]
