"""The flow engine: a script's positions, one after the other on each path, decided and brought to their end.

What is authoritative: the journal. The engine keeps in memory only which calls are
open and what their rows say so far; it can be dropped at any await and taken up by
another process from the rows.

A position's way: `api` checks what is asked (`asking`), `opening` gives it its place
and input digest and lets the walk decide; a live one goes through `dispatch` (intent,
claim and outbox row in one transaction, then the publisher) and waits in `waiting`
for the row that ends it. `joins` runs items on paths of their own. `halt` brings a
run to a stand whatever its script catches.

When something fails: a refused right stops the run here without a row; Postgres
away delays it and at last lets it go; a message lost costs a poll or an outbox
interval; a script's own error ends its run and nothing else.
"""
