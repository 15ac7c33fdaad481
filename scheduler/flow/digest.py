"""Digests: what of a position's input must be the same for its recorded result to stand.

The input digest covers the prompt (its exact text), schema, role and pair, node,
head and options, the digests of the joins settled before it, and the context: a
fresh thread, or the conversation it continues with the result of each turn's call.
Labels, times, hosts and seq numbers are no part of it.
Source: journal document, "The resume walk" (c); definition of positions and ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.base.canonical import digest_json

NO_JOINS = ""


def input_digest(kind: str, asks: Mapping[str, Any], joins: str) -> str:
    """The digest of what a position asks; `joins` is the chain of the joins settled before it."""
    return digest_json([kind, asks, joins])


def chain_joins(chain: str, settled: str) -> str:
    """The chain after one more join settled with the digest `settled`."""
    return digest_json([chain, settled])


def chain_conversation(before: str | None, turn_id: str | None, result_digest: str | None) -> str:
    """The digest of a conversation up to a call's last turn; `before` is None where the thread starts."""
    return digest_json([before, turn_id, result_digest])


def join_digest(results: Mapping[str, Any]) -> str:
    """The digest of a join: item results ordered by key, so that no order of finishing is in it.

    Raises:
        TypeError, ValueError: a result is no JSON value.
    """
    return digest_json(_ordered(results))


def _ordered(results: Mapping[str, Any]) -> Sequence[Any]:
    return [[key, results[key]] for key in sorted(results)]
