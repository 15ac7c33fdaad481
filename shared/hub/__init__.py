"""The repository a run was started on, and the one way in which git is run.

Authority: the hub is the only place where a commit, a pending tree or a merge
counts as kept; a host's mirror and worktrees are copies that may burn. Scheduler
and workers reach the hub through this package alone.

What it holds of a run: `refs/crw/flow/<run>/*` (`refs.py`) and, in the end, the
target branch. Whatever matters is pushed with leases, atomically, and together with
the guard ref (`guard.py`), so that a worker that lost its right moves nothing.

When things fail: a hub that cannot be reached raises `GitError` and nothing is
known about the push (the caller reads the refs again before it believes anything);
a push that the hub judged and refuses is a value (`Pushed.refused`), never an exception.

    environment  what every git command sees: nothing of the caller's repository, fixed settings
    git          run one git command: deadline, own process group, exact bytes
    refs         the names, and reading them
    push         one atomic push with leases; waiting for a hub that is away
    guard        the ref that a cancel or a takeover moves to shut the others out
    deletion     removing a run's refs, which a resume shuts out
    hub, checks  what `flow start` refuses before anything is written
    machine      the label that binds a run to this machine
"""
