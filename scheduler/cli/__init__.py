"""The command line `crw`: one file a command, loaded when it is asked for.

`main.py` is the group and the one place where an error becomes a sentence and an
exit status: 0 done, 1 the run ended in an error or a check failed, 2 unusable
command line, configuration, store or script (nothing was written), 130 Ctrl-C.
Commands do nothing of their own: they call `scheduler.client.Farm` and the readers of
`shared.journal`, and hand rows to pure functions (`view`, `render_*`) that make text.
A terminal gets rich tables and live lanes, anything else plain lines, `--json` objects.
"""
