"""The side that decides: runs scripts, opens calls, publishes and sweeps; never touches a worktree or a model."""
