"""Working directories: one mirror per hub, worktrees of it, snapshots, and what is kept of them.

Authority: the journal says which directory a call has (`placed`), the hub holds what
a row names (`refs/crw/flow/<run>/*`), git says what a directory contains. A model's
word on a head or a commit is never used.

A node's worktree is written by executor turns and by `commit` alone, one at a time.
Everything else, verify and integrate too, works in a checkout of its own.

When things fail: what git refuses to make or to read is a `WorktreeError` naming the
path, and its call is held `worktree_failed`; a hub that is away is waited for before
the terminal row; a directory left by a dead worker is made anew or stays until `clean`.
A worker that starts calls `Mirrors.sweep_stale_locks()` while it alone has the state
directory.

    mirror, lock    this host's copy of a hub, and the one lock around it
    allocator       the names of all directories; making and removing them
    history         what rows say about a node: worktrees, commits, the last turn (pure)
    snapshot        the tree of what a worktree holds
    commit          commits that are functions of rows
    keep            a ref on the hub before the row that needs it
    setup           the run's `setup` command, and the environment of such commands
    directories     the steps above for one agent call
    clean           all that a run left
"""
