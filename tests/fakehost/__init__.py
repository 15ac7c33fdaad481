"""A host for tests: a program on stdio that speaks the App Server's protocol.

It answers as 0.163.0 does wherever the contract suite can see it (the suite runs the
same cases on both), and it can be told to fail in ways the real one cannot:

    python -m tests.fakehost --state DIR app-server [-c key=value ...]

DIR holds what a test writes and reads. `scripts.json`: named scripts, in the language
of the scripted model, which here answers from inside. `faults.json`: a list of faults
(`faults`). `events/NAME`: a file that a step waits for. `requests.jsonl`: every frame
that came in, with the process that took it; the witness of what was really sent.
`turns.jsonl`: every input the model was given, the witness of what really ran.

Threads live under CODEX_HOME as the real ones do, so a second process on the same
home sees what the first one wrote before it died: a restart is a new process, with no
thread loaded, nobody listening, finished turns kept and running ones cut. `install`
makes an executable that `codex.bin` can name.
"""
