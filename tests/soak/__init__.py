"""The soak: a whole farm under load while everything of it is killed at random, held to an undisturbed run's result.

    python -m tests.soak [--minutes 15] [--positions 2000] [--seed N]

Two schedulers and four workers, each host with a fake App Server, a PostgreSQL and a
Valkey of its own, all on this machine's sockets. The load (`load`) runs once in peace;
then again at a pace that fills the time, while one fault after the other strikes
(`faults`): processes killed or frozen, App Servers killed, the broker killed, emptied and
restarted, the database killed and restarted, its connections cut. Whoever ends is started
again (`troupe`), as a supervisor does. From each fault the time is taken until what it
struck is whole again (`recovery`).

At the end the drill's invariants hold the rows, the refs and what arrived at the hosts,
and both runs came to one digest. `build/soak.json` is the report: `kills` survived,
`recovery_seconds` median and worst, `duplicates`, `lost`.
"""
