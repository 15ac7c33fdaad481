"""The flow's words: rows, positions, outcomes, roles and the pure rules over them. No I/O."""
