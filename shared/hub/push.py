"""One atomic push with a lease on every ref it moves, and what the hub said to it.

git compares a lease with what the hub advertised and sends that value along, so the
hub itself refuses a ref that moved in between. `None` stands for a ref that is not there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from shared.base.errors import GitError
from shared.base.log import get_logger, mask_url
from shared.hub.git import Git, git_error
from shared.hub.refusals import is_doubtful, is_for_good, is_no_verdict

T = TypeVar("T")

# A hub that is a directory of this machine gets the same durability as our own objects.
_DURABLE_RECEIVER = "--receive-pack=git -c core.fsync=all receive-pack"
_REJECTED = re.compile(r"^!\t[^\t]*:(?P<ref>[^\t]+)\t(?P<reason>.*)$", re.MULTILINE)
_REMOTE = "remote:"
_SAID_CHARACTERS = 500
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
# A directory of accounts that restarts, a hub that fails over, a window in which requests are counted, a lock.
_DOUBTFUL_SECONDS = 600.0


@dataclass(frozen=True)
class Pushed:
    """What became of a push.

    Shape:
        refused: ref -> the hub's reason; empty when every ref moved.
        said: what programs of the hub wrote about it, on one line.
    """

    refused: Mapping[str, str] = field(default_factory=dict)
    said: str = ""

    @property
    def ok(self) -> bool:
        """Whether all refs stand where they were pushed."""
        return not self.refused

    @property
    def reason(self) -> str:
        """The hub's words about the first ref that was not refused for another one's sake, and what its hook said."""
        own = [text for text in self.refused.values() if "atomic" not in text]
        reason = next(iter(own or self.refused.values()), "")
        return f"{reason} {self.said}" if self.said else reason


def push(git: Git, mirror: Path, hub_url: str, refs: Mapping[str, str], expect: Mapping[str, str | None]) -> Pushed:
    """Move all `refs` on the hub, or none.

    Args:
        refs: ref -> the object it shall be.
        expect: ref -> what it must be now (None: absent); every ref of `refs` has an entry.

    Raises:
        GitError: the hub cannot be reached, did not come to a verdict, or its answer was lost: whether it moved is not
            known.
    """
    leases = [f"--force-with-lease={ref}:{expect[ref] or ''}" for ref in refs]
    receiver = [_DURABLE_RECEIVER] if hub_url.startswith("/") else []
    updates = [f"{new}:{ref}" for ref, new in refs.items()]
    args = ("push", "--atomic", "--porcelain", "--no-verify", *receiver, *leases, "--", hub_url, *updates)
    result = git.run(mirror, *args, check=False)
    if result.exit_status == 0:
        return Pushed()
    refused = {match["ref"]: match["reason"] for match in _REJECTED.finditer(result.line)}
    reasons = "\n".join(refused.values())
    if not refused or "remote failure" in reasons or is_no_verdict(f"{reasons}\n{result.err}"):
        raise git_error(args, result)
    return Pushed(refused, _said(result.err))


def _said(err: str) -> str:
    """What the hub's own programs wrote: a hook is the only one who knows why it declines."""
    lines = [line.removeprefix(_REMOTE).strip() for line in err.splitlines() if line.startswith(_REMOTE)]
    return mask_url("; ".join(filter(None, lines)))[:_SAID_CHARACTERS]


def patiently(attempt: Callable[[], T], should_stop: Callable[[], object], patience_seconds: float) -> T:
    """Repeat something idempotent while the hub cannot be reached.

    Args:
        attempt: a question, or a push that recognises its own effect.
        should_stop: asked between attempts; true gives up at once.

    Raises:
        GitError: the last failure, when patience or the right to go on ended; at once one that no repetition mends;
            once it has stood for ten minutes, one that may be for good.
    """
    end = time.monotonic() + patience_seconds
    doubtful_since: float | None = None
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return attempt()
        except GitError as error:
            if is_for_good(error):
                raise
            get_logger().warning("hub_unreachable", error=str(error), again_in_seconds=pause)
            now = time.monotonic()
            doubtful_since = (doubtful_since or now) if is_doubtful(error) else None
            until = min(end, doubtful_since + _DOUBTFUL_SECONDS) if doubtful_since else end
            if should_stop() or now + pause > until:
                raise
        wake = time.monotonic() + pause
        while time.monotonic() < wake and not should_stop():
            time.sleep(0.2)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
