"""What the value of a setting may be, beyond its type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

# A century: what is longer, infinity first, is beyond the clocks of Python, Postgres and the system.
LONGEST_SECONDS = 100 * 366 * 86400.0
_NAME_LIMIT = 255
# What git strips from both ends of an identity; it refuses a name of nothing else.
_STRIPPED_BY_GIT = "".join(map(chr, range(33))) + ".,:;<>\"\\'"


def _no_empty_path(value: Any) -> Any:
    # An empty path would be the working directory.
    if value == "":
        raise ValueError("it is empty; name a directory")
    return value


def _name(value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > _NAME_LIMIT:
        raise ValueError(f"a name is 1 to {_NAME_LIMIT} printable characters")
    return value


def _identity(value: str) -> str:
    if not value.strip(_STRIPPED_BY_GIT) or not value.isprintable() or "<" in value or ">" in value:
        raise ValueError("git takes printable characters here, a letter or digit among them, and no < or >")
    return value


Seconds = Annotated[float, Field(gt=0, le=LONGEST_SECONDS)]
Days = Annotated[float, Field(ge=0, le=LONGEST_SECONDS / 86400)]
Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Bytes = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, AfterValidator(_name)]
Identity = Annotated[str, AfterValidator(_identity)]
Directory = Annotated[Path, BeforeValidator(_no_empty_path)]
Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
