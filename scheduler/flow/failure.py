"""Tell a script's failure as its author can use it: the error, and the script's own lines."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.flow.result import JoinFailed
from scheduler.flow.script import Script

_ITEMS_TOLD = 5
# Errors within errors.
_DEPTH_TOLD = 20
_LIMIT_CHARACTERS = 20_000


def describe_failure(error: BaseException, script: Script) -> tuple[str, str]:
    """`(message, traceback)`: one sentence with the script's line, and the frames that are the script's own.

    A failed join is told with the frames of its failed items: there is where it went wrong.
    """
    frames = script.frames(error.__traceback__)
    where = f" ({frames[-1][0]} line {frames[-1][1]})" if frames else _syntax_place(error)
    text = "\n".join(_lines(error, script, "", ()))
    return f"{_named(error)}{where}"[:_LIMIT_CHARACTERS], text[:_LIMIT_CHARACTERS]


def _syntax_place(error: BaseException) -> str:
    return f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""


def _lines(error: BaseException, script: Script, indent: str, outer: tuple[BaseException, ...]) -> Iterator[str]:
    yield f"{indent}Traceback of the script (most recent call last):"
    for file, line, function, text in script.frames(error.__traceback__):
        yield f'{indent}  File "{file}", line {line}, in {function}'
        if text:
            yield f"{indent}    {text}"
    yield f"{indent}{_named(error)}"
    told = (*outer, error)
    if len(told) == _DEPTH_TOLD:
        return
    if isinstance(error, JoinFailed):
        for key, item_error in list(error.errors.items())[:_ITEMS_TOLD]:
            yield f"{indent}  item {key}:"
            yield from _lines(item_error, script, indent + "  ", told)
        return
    inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    # A script can make a ring of its errors: `raise error from error`.
    if inner is not None and all(inner is not one for one in told) and script.frames(inner.__traceback__):
        yield f"{indent}while handling:"
        yield from _lines(inner, script, indent, told)


def _named(error: BaseException) -> str:
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - an error class of the script's own may say nothing, or call sys.exit
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
