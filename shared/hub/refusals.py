"""Which failures of git no repetition mends: what it was asked is wrong, or the hub knows who asks and says no.

Everything that is not known to be for good may be an outage, and is tried again.
Source: the words of git 2.39 to 2.50 in English, which `environment.py` asks for, and of the
large hosts' ssh and HTTP servers.
"""

from __future__ import annotations

import re

from shared.base.errors import GitError

_FOR_GOOD = re.compile(
    "|".join(
        (
            # Asked wrongly, and said before anything was sent.
            r"^(error|fatal): (src refspec .* does not match any|invalid refspec|bad object|not a valid object)",
            r"^fatal: (transport '.*' not allowed|unable to find remote helper for|.* is not a valid remote helper)",
            # The hub is there and cannot be written in this way by anybody.
            r"^fatal: (ref updates aborted by hook|the receiving end does not support --atomic push)",
            r"\[remote rejected\] \(.*(hook declined|deny updating|denied|prohibited|protected|unpacker error)",
            r"^fatal: (detected dubious ownership|expected git repo version)",
            # The hub is there and does not let this account in.
            r"^fatal: (authentication failed for|could not read (username|password) for)",
            r"^(remote: |error: )*permission to .* denied",
            r"^.*: permission denied \(|^host key verification failed",
            r"^fatal: (remote error: .*access denied for|repository '.*' not found)",
            # 408 and 429 ask for patience, and so does everything that a server says of itself.
            r"(requested url returned error: |rpc failed; http )(401|403|404|405|410|413)\b",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)


def is_for_good(error: GitError) -> bool:
    """Whether the same command would fail in the same way until a person mends something."""
    return _FOR_GOOD.search(str(error.facts.get("output", ""))) is not None
