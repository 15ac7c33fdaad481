"""The side that does: claims calls, makes worktrees, drives the App Server and runs ops; never runs a script."""
