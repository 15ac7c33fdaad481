"""Names on the broker: the one task, its ids, what Flower shows, the queues."""

from __future__ import annotations

TASK = "crw.call"
FARM_QUEUE = "farm"
WAKE_CHANNEL = "crw.wake"
# The journal's word for calls of agents; every other kind is the name of an op.
AGENT_KIND = "agent"


def task_id(call_id: str, request_id: str, tries: int) -> str:
    """The Celery task id of a publication.

    The number of the publication stands in it: an id that somebody revoked in
    Flower is dropped by every worker that heard of it, so no id is used twice.
    """
    return f"{call_id}.{request_id}.p{tries}"


def shadow_name(kind: str, role: str | None) -> str:
    """The name under which Flower shows a call: `crw.agent.executor`, `crw.op.verify`."""
    return f"crw.agent.{role or 'agent'}" if kind == AGENT_KIND else f"crw.op.{kind}"


def readable(run_id: str, node_id: str | None, role: str | None, label: str | None) -> str:
    """What Flower shows and searches in place of arguments: never a prompt, a path or a secret."""
    words = {"run": run_id, "node": node_id, "role": role, "label": label}
    return " ".join(f"{name}={_one_word(value)}" for name, value in words.items() if value)


def _one_word(text: str) -> str:
    # A label is the script's own text: kept to one short word, so that a search for `role=` finds roles only.
    return "-".join(text.split())[:80]


def host_mark(host: str) -> str:
    """What wakes one host on the wake-up channel, where runs wake by their ids: it was asked something."""
    return f"host:{host}"


def host_queue(host: str) -> str:
    """The queue of what must run on one host."""
    return f"host.{host}"


def label_queue(label: str) -> str:
    """The queue of what may run on any host that offers the label."""
    return f"{FARM_QUEUE}.{label}"


def farm_queues(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The queues of what has no host yet, for a worker that offers these labels."""
    return (*(label_queue(label) for label in labels), FARM_QUEUE)
