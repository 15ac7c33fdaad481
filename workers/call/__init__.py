"""One agent call, from its claim to its terminal row, over as many workers and servers as that takes.

Authority: the journal. Each step is three beats (reserve, append the intent, act),
so whatever dies between two of them leaves a row that says how far it came
(`shared.model.call_state`), and the next holder goes on from there.

The steps, one file each, in the order of `run.py`:

    context       read what the scheduler prepared and what the journal knows of call and node
    leftovers     what belonged to calls that ended
    continuing    for a conversation: the same thread, a fork of it, or a new thread that is told of it
    directory     claim a directory: `placed`, then the worktree; for a boundary, restored before
    guarding      what has to be equal before the first turn, and for readers behind the last
    thread, fork  `thread_requested`, thread/start, fork or resume, the pair read back
    checkpoint    what a new thread is told in place of a conversation that is gone
    conversation  turn after turn: `input` what each is sent with, `turn` sends and follows it,
                  `ended` its end, `answer` what that is worth; one repair turn
    settle        a turn that nobody heard the end of: looked up on the host, never sent again
    in_place      the first step of a held call that may go on where it stands
    finish        commands cleaned, two equal snapshots, the tree on the hub, the terminal row

What becomes of a call whose worker or server died, by the last intent:

    none, `placed`       it begins again, in a new directory
    `thread_requested`, `fork_requested`   the thread is made again, under the next ordinal: it had no effect
    `turn_requested`     the host says: ended (taken as it is), cut (the conversation goes on behind it, in
                         place), or not delivered, which takes proof (its input is sent under the next
                         ordinal); else the call ends `outcome_unknown`
    `interrupt_requested` the end is proven as above, and the call ends with the interrupt's reason

A node that is given back to a boundary: its old worktree is kept on refs of the hub
(`worktree_preserved`), a new one is made to hold the boundary (`worktree_restored`) and
adopted (`placed`). A death between two of these leaves the boundary as it was: the next
holder, or the next resume, makes it again elsewhere. If the new worktree changed before
the first turn nothing is sent, and the node stops for the run.

What ends a call early: a lost claim (write nothing, interrupt, go), a stopping run and a
deadline (interrupt, see it end, `held`), workers or servers that die under it again and
again (`held`). A worker that stops interrupts its turns and leaves them to its successor.
Source: App Server document, "The App Server backend"; design of the farm, "The life of a call".
"""
