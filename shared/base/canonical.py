"""Canonical JSON: one text for equal values, total over everything a model can say.

Where RFC 8785 is defined the bytes are its bytes. It is undefined for integers
beyond 2**53, floats beyond a double and lone surrogates; there the number's own
digits and the surrogate's own code unit are kept, so that no row can fail for
what a model wrote. Source: design of the farm, "Bytes".
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import msgspec
import rfc8785

# What it accepts it reads as the standard decoder does, several times faster; what it refuses (lone surrogates,
# numbers beyond a double, text that is no JSON) is read by that one, which says what is wrong.
_READ = msgspec.json.Decoder()
_LONGEST_INTEGER = 4000


class _Number(str):
    """A number token that RFC 8785 has no form for: written as it was read."""

    __slots__ = ()


def _parse_int(token: str) -> int | _Number:
    # Python refuses to convert integers of thousands of digits; such a token is kept as it is.
    return int(token) if len(token) <= _LONGEST_INTEGER else _Number(token)


def _parse_float(token: str) -> float | _Number:
    value = float(token)
    return value if math.isfinite(value) else _Number(token)


def parse(text: str | bytes) -> Any:
    """JSON text to a value whose numbers and surrogates survive `canonical_bytes`.

    Raises:
        ValueError: it is no JSON (NaN and Infinity are none), or nested beyond what Python can hold.
    """
    try:
        return _READ.decode(text)
    except (ValueError, RecursionError):
        pass  # the slower decoder judges
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant)


def canonical_bytes(value: Any) -> bytes:
    """The canonical form of a JSON value (dict, list, tuple, str, int, float, bool, None).

    Raises:
        TypeError: something in it is no JSON value.
        ValueError: a float that is not finite, or nesting beyond what Python can hold.
    """
    parts: list[str] = []
    try:
        if _is_plain(value):
            try:
                # What nearly every value is: here it writes the same bytes, many times faster.
                return _PLAIN.encode(value)
            except UnicodeEncodeError:
                pass  # a lone surrogate
        _write(value, parts)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    return "".join(parts).encode("utf-8", "surrogatepass")


_WORD = 1 << 63
_LEAVES = frozenset({str, bool, type(None)})
_PLAIN = msgspec.json.Encoder(order="deterministic")


def _is_plain(value: Any) -> bool:
    """Whether the value has nothing in it whose canonical form is special: floats, big numbers, keys beyond ASCII."""
    kind = type(value)
    if kind is dict:
        for key, member in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if type(member) not in _LEAVES and not _is_plain(member):
                return False
        return True
    if kind is list or kind is tuple:
        for member in value:  # noqa: SIM110 - a generator costs as much again
            if type(member) not in _LEAVES and not _is_plain(member):
                return False
        return True
    if kind is int:
        return bool(-_WORD < value < _WORD)
    return kind in _LEAVES


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, _Number):
        parts.append(value)
    elif value is None or isinstance(value, bool):
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        parts.append(_string(value))
    elif isinstance(value, int):
        parts.append(int.__str__(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no JSON number")
        parts.append(rfc8785.dumps(float(value)).decode("ascii"))
    elif isinstance(value, dict):
        _write_object(value, parts)
    elif isinstance(value, (list, tuple)):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, parts)
        parts.append("]")
    else:
        raise TypeError(f"{type(value).__name__} is no JSON value")


def _write_object(value: dict[Any, Any], parts: list[str]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"an object's key is a string, not {type(key).__name__}")
    parts.append("{")
    # RFC 8785 sorts by UTF-16 code units.
    for index, key in enumerate(sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))):
        if index:
            parts.append(",")
        parts.append(_string(key))
        parts.append(":")
        _write(value[key], parts)
    parts.append("}")


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({**{chr(code): f"\\u{code:04x}" for code in range(32)}, **_SHORT})


def _string(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def digest_bytes(raw: bytes) -> str:
    """sha-256 of bytes, in hex."""
    return hashlib.sha256(raw).hexdigest()


def digest_json(value: Any) -> str:
    """sha-256 of a JSON value's canonical form, in hex."""
    return digest_bytes(canonical_bytes(value))


def digest_text(text: str) -> str:
    """sha-256 of a text exactly as it is, in hex."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def storable(value: Any) -> str:
    """A JSON value as pure ASCII text for a `text` column, which takes neither NUL nor a lone surrogate.

    Raises:
        TypeError, ValueError: it is no JSON value.
    """
    return _STORABLE.encode(value)


# Made once: `json.dumps` makes one for each call.
_STORABLE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def from_storable(text: str) -> Any:
    """What `storable` was given, as JSON reads it back."""
    try:
        return _READ.decode(text)
    except ValueError:
        return json.loads(text)
