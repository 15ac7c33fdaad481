"""`python -m tests.fakehost --state DIR ...`: as the codex executable would be called."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.fakehost.host import Host, read_overrides

VERSION = "0.163.0"


def main(arguments: list[str]) -> int:
    """Answer `--version` and `login status`, or serve."""
    state = Path(arguments[arguments.index("--state") + 1])
    if "--version" in arguments:
        print(f"codex-cli {VERSION}")
        return 0
    if "login" in arguments:
        print("Not logged in", file=sys.stderr)
        return 1
    if "app-server" not in arguments:
        print(f"the fake host has no command {arguments!r}", file=sys.stderr)
        return 2
    home = Path(os.environ["CODEX_HOME"])
    asyncio.run(Host(state, home, VERSION, read_overrides(arguments)).serve())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
