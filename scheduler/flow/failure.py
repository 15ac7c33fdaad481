"""Tell a script's failure as its author can use it: the error, and the script's own lines."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.flow.result import JoinFailed
from scheduler.flow.script import Script

_ITEMS_TOLD = 5
_LIMIT_CHARACTERS = 20_000


def describe_failure(error: BaseException, script: Script) -> tuple[str, str]:
    """`(message, traceback)`: one sentence with the script's line, and the frames that are the script's own.

    A failed join is told with the frames of its failed items: there is where it went wrong.
    """
    frames = script.frames(error.__traceback__)
    where = f" ({frames[-1][0]} line {frames[-1][1]})" if frames else _syntax_place(error)
    text = "\n".join(_lines(error, script, ""))
    return f"{_named(error)}{where}"[:_LIMIT_CHARACTERS], text[:_LIMIT_CHARACTERS]


def _syntax_place(error: BaseException) -> str:
    return f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""


def _lines(error: BaseException, script: Script, indent: str) -> Iterator[str]:
    yield f"{indent}Traceback of the script (most recent call last):"
    for file, line, function, text in script.frames(error.__traceback__):
        yield f'{indent}  File "{file}", line {line}, in {function}'
        if text:
            yield f"{indent}    {text}"
    yield f"{indent}{_named(error)}"
    if isinstance(error, JoinFailed):
        for key, inner in list(error.errors.items())[:_ITEMS_TOLD]:
            yield f"{indent}  item {key}:"
            yield from _lines(inner, script, indent + "  ")
    elif error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        inner_error = error.__cause__ or error.__context__
        if inner_error is not None and script.frames(inner_error.__traceback__):
            yield f"{indent}while handling:"
            yield from _lines(inner_error, script, indent)


def _named(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error class of the script's own may fail to say anything
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
