"""A process for the tests of supervision: `sleep`, `die` (status 3, after a line) or `stubborn` (ignores SIGTERM).

Each starts a grandchild in its own process group and prints both process ids.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def main(how: str) -> None:
    grandchild = subprocess.Popen(["sleep", "120"])
    print(os.getpid(), grandchild.pid, flush=True)
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "die":
        print("no disk is left on this moon", flush=True)
        sys.exit(3)
    time.sleep(120)


if __name__ == "__main__":
    main(sys.argv[1])
