"""`python -m workers.login`: log this host in on the farm's own Codex home.

Nothing else of the farm runs in this process; `crw host login` starts it, so that the
command line needs nothing of a worker's code. Exit status: 0 logged in, 1 codex said
no, 2 the settings do not allow it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from shared.base.errors import UsageError
from shared.base.settings import load_settings
from workers.appserver.home import login, read_login_state


def main(argv: Sequence[str] | None = None) -> int:
    """Log in, or say who is logged in."""
    parser = argparse.ArgumentParser(prog="python -m workers.login", description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--with-api-key", action="store_true", help="read an API key from standard input")
    how.add_argument("--device-auth", action="store_true", help="show a code to enter on another machine")
    how.add_argument("--status", action="store_true", help="say whether somebody is logged in, and change nothing")
    asked = parser.parse_args(argv)
    try:
        settings = load_settings()
        if not asked.status:
            api_key = sys.stdin.readline() if asked.with_api_key else None
            if not login(settings.codex, settings.state_dir, api_key=api_key, device=asked.device_auth):
                return 1
        state = read_login_state(settings.codex, settings.state_dir)
    except UsageError as error:
        print(f"crw: {error}", file=sys.stderr)
        return 2
    print(state.description)
    return 0 if state.logged_in else 1


if __name__ == "__main__":
    sys.exit(main())
