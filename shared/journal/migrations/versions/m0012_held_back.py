"""Calls of a run that are held back: opened and in the outbox, but not on the broker yet.

`not_before` is infinity for them: no publisher finds them due, and whoever hands them
over looks for them run by run. `crw_append` opens them so where the run says it, and
computes a queue only for those that are published now.
Source: rules of the protocol, 36.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"

INDEXES = """
create index outbox_held on outbox (run_id) where not_before = 'infinity';
create index outbox_published on outbox (run_id) where not_before < 'infinity';
"""

_CHANGES = (
    (
        "select o.call, o.run, o.request, clock_timestamp() + interval '30 s', 1\n"
        "    from json_to_recordset(p_opens) as o(run text, call text, request text)\n",
        "select o.call, o.run, o.request,\n"
        "      case when o.held then 'infinity' else clock_timestamp() + interval '30 s' end,\n"
        "      case when o.held then 0 else 1 end\n"
        "    from json_to_recordset(p_opens) as o(run text, call text, request text, held boolean)\n",
    ),
    ("not_before = excluded.not_before, tries = 1;", "not_before = excluded.not_before, tries = excluded.tries;"),
    (
        "from json_to_recordset(p_opens) as o(run text, call text, node text, pin text)\n",
        "from json_to_recordset(p_opens) as o(run text, call text, node text, pin text, held boolean)\n",
    ),
    (
        "left join node_placements p on p.run_id = o.run and p.node_id = o.node;",
        "left join node_placements p on p.run_id = o.run and p.node_id = o.node\n     where o.held is not true;",
    ),
)


def upgrade() -> None:
    op.execute(INDEXES)
    connection = op.get_bind()
    definition = connection.exec_driver_sql("select pg_get_functiondef('crw_append'::regproc)").scalar_one()
    for before, after in _CHANGES:
        assert definition.count(before) == 1, before
        definition = definition.replace(before, after)
    # On the bare cursor: a function's text may have percent signs, and no parameters are meant by them.
    connection.connection.cursor().execute(definition)
