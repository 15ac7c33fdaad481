"""What the farm does on its own: publish what is due, free what the dead hold.

Each sweep is one file, one loop, one counted pass, and is level-triggered: a pass
looks at what is, not at what happened, so one that was missed costs a period. Any
number of schedulers may sweep at once. When the database is away a sweep forgets
what it suspected: nobody is declared dead for an outage of ours.
"""
