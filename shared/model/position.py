"""Paths and positions: where in the script a call stands.

The root path is `main`; positions count from 1 on each path. A join at position p
gives each item a path of its own, `<path>/<p>[<key, percent-encoded>]`, so an
item's identity is its key and never the order in which items finish.
Source: definition of positions and ids; journal document, "The resume walk".
"""

from __future__ import annotations

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
