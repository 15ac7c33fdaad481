"""The group `crw`, and the one place that turns an error into a sentence and an exit status."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from scheduler.cli.lazy import LazyGroup
from shared.base.errors import CrwError

EXIT_DONE = 0
# Nobody reads on, for instance behind `| head`: what click says of it as well.
EXIT_UNREAD = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130
# A fault of the program itself is neither the run's error (1) nor the user's (2).
EXIT_FAULT = 70
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_COMMANDS = {
    "demo": ("scheduler.cli.demo", "the main job on services that come along; leaves nothing running"),
    "up": ("scheduler.cli.up", "a farm of one host on this machine, until Ctrl-C"),
    "flow": ("scheduler.cli.flow", "start, watch and steer runs"),
    "host": ("scheduler.cli.host", "the hosts of the farm"),
    "scheduler": ("scheduler.cli.scheduler", "one scheduler process"),
    "worker": ("scheduler.cli.worker", "the worker process of this host"),
    "flower": ("scheduler.cli.flower", "Flower over the farm's tasks, read-only"),
    "db": ("scheduler.cli.db", "the journal's schema"),
    "doctor": ("scheduler.cli.doctor", "check everything; each failure with its mend"),
}


@click.group(
    cls=LazyGroup, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="crw-farm", prog_name="crw", message="%(prog)s %(version)s")
def crw() -> None:
    """Run coding-agent flows over a farm of machines.

    \b
    A first look:      crw demo
    A farm of one:     crw up
    A run of your own: crw flow start my_flow.py --repo . --watch
    Is all well:       crw doctor
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit status; errors are said on standard error, in one sentence."""
    as_json = "--json" in arguments
    try:
        status = crw.main(args=list(arguments), prog_name="crw", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_UNUSABLE
    except click.ClickException as error:
        return _refuse(_usage_sentence(error), "usage", as_json)
    except CrwError as error:
        return _refuse(str(error), error.reason, as_json)
    except BrokenPipeError:
        _drop_output()
        return EXIT_UNREAD
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return _refuse(f"no file can have this name ({error}); shorten it", "usage", as_json)
        if error.errno not in _DISK_FULL:
            return _confess()
        _drop_output()
        return _refuse(f"nothing more can be written ({error}); free space and try again", "disk_full", as_json)
    except Exception:  # noqa: BLE001 - the last frame of the program: whatever came this far is a fault of ours
        return _confess()
    return status if isinstance(status, int) else EXIT_DONE


def _drop_output() -> None:
    # What is still in the buffer would be written once more at the interpreter's end.
    with contextlib.suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _confess() -> int:
    traceback.print_exc()
    print("crw: this is a fault in crw itself; nothing more is known than what stands above", file=sys.stderr)
    return EXIT_FAULT


def _refuse(sentence: str, reason: str, as_json: bool) -> int:
    one_line = " ".join(sentence.split())
    if as_json:
        print(json.dumps({"error": one_line, "reason": reason}), file=sys.stderr)
    else:
        print(f"crw: {one_line}", file=sys.stderr)
    return EXIT_UNUSABLE


def _usage_sentence(error: click.ClickException) -> str:
    """click's message as one sentence that ends with where to read on."""
    sentence = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None or "; " in sentence:
        return sentence
    return f"{sentence[:1].lower()}{sentence[1:]}; see '{context.command_path} --help'"


def _open_streams() -> None:
    """Have standard input, output and error: where one was closed (`>&-`), the next file would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def main() -> NoReturn:
    """The program `crw`."""
    _open_streams()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
