"""The drill: whatever dies, wherever in a call's life, the run goes on to the same result.

    python -m tests.drill [--cells N] [--real N] [--only PATTERN]

A cell is a small flow, run to one point of one row, struck by one fault there, and
continued by another process to its end. The points are generated, not listed: every
row kind that the engine writes × its boundaries (`cells`) × the faults (`faults`).
The flows (`scenarios`) are there so that every kind is written by one of them; a kind
that none of them writes is reported as uncovered.

What is looked at afterwards is not what the farm says of itself alone: the log of the
fake host (or of the model's provider) says which frames arrived, the hub's refs which
bytes are kept, the rows who had the right (`invariants`). `build/drill.json` is the report.
"""
