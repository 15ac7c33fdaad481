"""One suite of cases, run on the fake host and on real App Servers, so that the fake cannot drift.

`pytest tests/contract` runs it on the fake and on the installed server; `--hosts
fake,0.154.0` chooses. `python -m tests.contract` fetches every supported version and
writes build/contract.json. A case speaks through `workers.appserver` wherever it can,
with raw requests only where a rule is about what must never be sent.
"""
