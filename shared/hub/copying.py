"""Give what one run keeps on the hub to another run as well: the same objects under other refs.

Nothing is downloaded that the hub does not have already, and nothing moves but the new
names. Source: rules of the protocol, 9 (what a row names is on the hub before it).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.push import push
from shared.hub.refs import read_refs

_BATCH = 200


def copy_refs(git: Git, hub_url: str, refs: Mapping[str, str]) -> None:
    """Make each new ref (value) what the old one (key) is on the hub.

    Raises:
        GitError: the hub cannot be reached, lacks one of the old refs, or refuses a new one.
    """
    names = sorted(refs)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        found = read_refs(git, hub_url, *batch, *(refs[name] for name in batch))
        missing = [name for name in batch if name not in found]
        if missing:
            raise GitError(f"the hub has no {missing[0]} any more", ref=missing[0])
        wanted = {refs[name]: found[name] for name in batch if found.get(refs[name]) != found[name]}
        if wanted:
            _push(git, hub_url, batch, wanted, {name: found.get(name) for name in wanted})


def _push(
    git: Git, hub_url: str, sources: list[str], wanted: Mapping[str, str], expect: Mapping[str, str | None]
) -> None:
    with tempfile.TemporaryDirectory(prefix="crw-refs-") as directory:
        place = Path(directory)
        git.run(place, "init", "--quiet", "--bare")
        fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", hub_url)
        git.run(place, *fetch, *(f"+{name}:{name}" for name in sources))
        pushed = push(git, place, hub_url, wanted, expect)
    if not pushed.ok:
        raise GitError(f"the hub refuses a ref of the new run: {pushed.reason}", reason=pushed.reason)
