"""Paths and positions: where in the script a call stands.

The root path is `main`; positions count from 1 on each path. A join at position p
gives each item a path of its own, `<path>/<p>[<key, percent-encoded>]`, so an
item's identity is its key and never the order in which items finish.
Source: definition of positions and ids; journal document, "The resume walk".
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

ROOT_PATH = "main"


def child_path(path: str, position: int, key: str) -> str:
    """The path of the item `key` of the join at `position` of `path`."""
    return f"{path}/{position}[{quote(key, safe='')}]"


def parent_of(path: str) -> tuple[str, int, str] | None:
    """`(parent path, join's position, item key)` of a path; None for the root."""
    head, slash, last = path.rpartition("/")
    if not slash:
        return None
    position, _, key = last.partition("[")
    return head, int(position), unquote(key.removesuffix("]"))


def find_named(text: str, names: Iterable[str]) -> str | None:
    """The path or place among `names` that people mean; None when it is none of them, or more than one.

    It may be written as it is recorded, or with its keys as tables show them: `main/1[%C3%A4]:1` or `main/1[ä]:1`.
    """
    known = list(names)
    shown = [text] if text in known else [name for name in known if unquote(name) == text]
    return shown[0] if len(shown) == 1 else None
