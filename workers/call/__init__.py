"""One agent call, from its claim to its terminal row.

Authority: the journal. Each step is three beats (reserve, append the intent, act),
so whatever dies between two of them leaves a row that says how far it came.

The steps, one file each, in the order of `run.py`:

    context    read what the scheduler prepared and what the journal knows of the node
    directory  claim a directory: `placed`, then the worktree
    thread     `thread_requested`, thread/start or resume, the pair read back
    turn       `turn_requested`, turn/start, follow it to its end
    answer     the turn's answer against the call's schema; one repair turn
    finish     commands cleaned, two equal snapshots, the tree on the hub, the terminal row

What ends a call early: a lost claim (write nothing, interrupt, go), a stopping run
or worker and a deadline (interrupt, see it end, `held`), an answer that was lost or
a server that died after something was sent (`outcome_unknown`: it is never sent again).
Source: App Server document, "The App Server backend"; design of the farm, "The life of a call".
"""
