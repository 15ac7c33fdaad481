"""Make a frozen dataclass from all its members at once.

Its own constructor sets each member by a call of its own: for what a resume makes of
each of ten thousand positions that took longer than deciding them.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def make_frozen(kind: type[T], members: dict[str, Any]) -> T:
    """An instance with these members; those left out have the class' own defaults, which are no factories.

    Args:
        kind: a frozen dataclass without slots and without a `__post_init__`.
        members: by name; they are the instance's from now on.
    """
    made = object.__new__(kind)
    # Taken as they are: to copy them cost as much again.
    object.__setattr__(made, "__dict__", members)
    return made
