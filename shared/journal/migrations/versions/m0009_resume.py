"""Runs are opened again, calls are told to stop, and an attempt that ended may be superseded.

`crw_append` ends an open claim with a row of its run, `crw_claim` finds what a call that
goes on in place was asked: in its newest `prepared` row, of whatever attempt. Both are
changed from what stands in the database, so that what other steps gave them stays.
Source: journal document, "The suffix" and "Held calls"; rules of the protocol, 3 and 10.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

TABLES = """
alter table flow_runs add column resumes integer not null default 0;
grant update (resumes) on flow_runs to crw_app;
alter table call_claims add column stop text;
drop index one_terminal_an_attempt;
create unique index one_terminal_an_attempt on flow_calls (call_id, attempt, (event = 'superseded')) where terminal;
"""

_CHANGES = {
    "crw_append": (
        (
            "select m.fence, c.state in ('open', 'claimed', 'stranded') or c.attempt >= m.attempt as live\n"
            "      from json_to_recordset(p_claims) as m(call text, fence bigint, wrote integer, attempt integer)",
            "select m.fence, c.state in ('claimed', 'stranded')\n"
            "        or (c.state = 'open' and not coalesce(m.takes, false)) or c.attempt >= m.attempt as live\n"
            "      from json_to_recordset(p_claims) as m(call text, fence bigint, wrote integer, attempt integer,\n"
            "        takes boolean)",
        ),
        (
            "  update call_claims c set state = 'ended'\n"
            "    from json_to_recordset(p_claims) as m(call text, fence bigint, attempt integer)\n"
            "   where c.call_id = m.call and m.fence is null and m.attempt is null and c.state = 'lost';\n",
            "  update call_claims c set state = 'ended', fence = c.fence + (c.state = 'open')::integer\n"
            "    from json_to_recordset(p_claims) as m(call text, fence bigint, attempt integer)\n"
            "   where c.call_id = m.call and m.fence is null and m.attempt is null and c.state in ('lost', 'open');\n"
            "  delete from outbox b using json_to_recordset(p_claims) as m(call text, takes boolean)\n"
            "   where b.call_id = m.call and m.takes;\n",
        ),
        ("pin_host = excluded.pin_host, fence", "pin_host = excluded.pin_host, stop = null, fence"),
    ),
    "crw_judge": (
        ("as l(m integer, call text, fence bigint)", "as l(m integer, call text, fence bigint, takes boolean)"),
        (
            "where l.fence is null and c.state in ('open', 'claimed', 'stranded')",
            "where l.fence is null and (c.state in ('claimed', 'stranded')\n"
            "       or (c.state = 'open' and not coalesce(l.takes, false)))",
        ),
    ),
    "crw_claim": (("r.attempt = c.attempt and r.event", "r.attempt <= c.attempt and r.event"),),
}


def upgrade() -> None:
    op.execute(TABLES)
    connection = op.get_bind()
    for name, changes in _CHANGES.items():
        definition = connection.exec_driver_sql(f"select pg_get_functiondef('{name}'::regproc)").scalar_one()
        for before, after in changes:
            assert definition.count(before) == 1, (name, before)
            definition = definition.replace(before, after)
        # On the bare cursor: a function's text may have percent signs, and no parameters are meant by them.
        connection.connection.cursor().execute(definition)
