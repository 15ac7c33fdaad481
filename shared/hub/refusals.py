"""Which failures of git no repetition mends, and which may also be the words of an outage.

Three kinds are told apart. What git or the hub was asked is wrong, or a rule of the hub's
stands against it: the same again fails in the same way. The hub does not know or does not
admit who asks: so it says as well while its directory of accounts is away, a proxy before it
has lost it, or it counts requests; or something holds a lock there, for a moment or since it
died. That is believed once it has stood for a while. Everything else, and whatever the hub
says of its own failure, may be an outage, and is tried again.
Source: the words of git 2.39 to 2.50 in English, which `environment.py` asks for, and of the
large hosts' ssh and HTTP servers and hooks.
"""

from __future__ import annotations

import re

from shared.base.errors import GitError, NotOnHub

_FLAGS = re.IGNORECASE | re.MULTILINE
_LOCKED = r"unable to create '.*\.lock': file exists"
_FOR_GOOD = re.compile(
    "|".join(
        (
            # Asked wrongly, and said before anything was sent.
            r"^(error|fatal): (src refspec .* does not match any|invalid refspec|bad object|not a valid object)",
            # Asked for a ref that is not there.
            r"^fatal: (couldn't|could not) find remote ref",
            r"^fatal: (transport '.*' not allowed|unable to find remote helper for|.* is not a valid remote helper)",
            # The hub is there and cannot be written in this way by anybody.
            r"^fatal: (ref updates aborted by hook|the receiving end does not support --atomic push)",
            r"\[remote rejected\] \(.*(hook declined|deny updating|denied|prohibited|protected|unpacker error)",
            r"^fatal: (detected dubious ownership|expected git repo version)",
            r"^host key verification failed",
            r"(requested url returned error: |rpc failed; http )(405|410|413)\b",
        )
    ),
    _FLAGS,
)
_DOUBTFUL = re.compile(
    "|".join(
        (
            r"^fatal: (authentication failed for|could not read (username|password) for)",
            r"^(remote: |error: )*permission to .* denied",
            r"^.*: permission denied \(",
            r"^fatal: (remote error: .*access denied for|repository '.*' not found)",
            # 408 and 429 ask for patience, and so does everything that a server says of itself.
            r"(requested url returned error: |rpc failed; http )(401|403|404)\b",
            _LOCKED,
        )
    ),
    _FLAGS,
)
# A large host asks itself whether a push may be; where it gets no answer, its hook declines the push.
_FAILS = r"internal api\b|internal server error|api is not accessible|no space left on device|service unavailable"
_HUB_FAILS = re.compile(_FAILS, _FLAGS)
_NO_VERDICT = re.compile(f"{_FAILS}|{_LOCKED}", _FLAGS)


def is_for_good(error: GitError) -> bool:
    """Whether the same command would fail in the same way until a person mends something."""
    return isinstance(error, NotOnHub) or _says(error, _FOR_GOOD)


def is_doubtful(error: GitError) -> bool:
    """Whether the hub says no in words that are for good, unless they pass soon."""
    return _says(error, _DOUBTFUL)


def is_no_verdict(words: str) -> bool:
    """Whether a hub refused a push without having judged it: it failed at that, or something was locked."""
    return _NO_VERDICT.search(words) is not None


def _says(error: GitError, words: re.Pattern[str]) -> bool:
    said = str(error.facts.get("output", ""))
    return _HUB_FAILS.search(said) is None and words.search(said) is not None
