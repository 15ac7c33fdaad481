"""Where a request left from. Pure: an intent's detail in, facts out.

An intent names the process that is about to send, so that whoever looks later can say
whether what is absent could still come.
Source: journal document, "Persistence"; App Server document, "The App Server backend".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Origin:
    """The process that a request left from, as its intent names it: what an absence is held against.

    Shape: `worker_id` has its pid and start time in `farm_workers`; `home_id` is the state
    directory's own; `generation` the App Server's; `space_mark` the last alarm of free
    space the host had then; `local_only` that its agents had no apps, web search or MCP.
    """

    host: str
    worker_id: str
    boot_id: str
    home_id: str
    generation: str
    space_mark: int
    local_only: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain data for an intent's detail."""
        return asdict(self)

    @classmethod
    def read(cls, detail: Mapping[str, Any]) -> Origin | None:
        """From an intent's detail; None for one that did not say all of it."""
        values = {field.name: detail.get(field.name) for field in fields(cls)}
        # Older rows do not say it: they were written where it was always so.
        values["local_only"] = detail.get("local_only", True)
        return None if None in values.values() else cls(**values)  # type: ignore[arg-type]
