"""The resume walk: what an earlier process recorded, and what follows from it. Pure; no I/O.

`history` sorts a run's rows by where in the script they stand; `walk` decides for
one position whether it replays, runs live, waits for a call that is still at work,
or proves that the script is not the one that was recorded. Start is resume with an
empty history: there is no other engine path.
"""
