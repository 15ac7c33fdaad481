"""Keys of joins name paths, so they are texts that a row can hold."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.flow.joins import key_texts
from shared.base.errors import FlowError


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["a", "\ud800"], "half a character"),
        (["a", ""], "is a text or a number"),
        (["1", 1], "two items have the key"),
    ],
)
def test_a_key_that_cannot_name_a_path_is_refused_at_the_script_s_line(keys: list[Any], words: str) -> None:
    with pytest.raises(FlowError, match=words):
        key_texts("flow.parallel", keys)
