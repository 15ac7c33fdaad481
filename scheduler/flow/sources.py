"""Find what ships with a script: itself, the modules it imports from its own folder, the files it declares.

Any scheduler can then run or resume the run from the journal alone. What is not
found here is neither importable nor readable for the run.
Source: definition of sources ("Helpers of a script").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shared.base.canonical import digest_bytes
from shared.base.errors import UsageError

MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Sources:
    """Shape: `script` is a name among `files`; names are relative to the script's folder, with forward slashes."""

    script: str
    files: dict[str, bytes]

    def digests(self) -> dict[str, str]:
        """name -> sha-256 of its bytes, as a run's record keeps it."""
        return {name: digest_bytes(raw) for name, raw in sorted(self.files.items())}

    def by_digest(self) -> dict[str, bytes]:
        """sha-256 -> bytes, as the journal stores them."""
        return {digest_bytes(raw): raw for raw in self.files.values()}


def collect(path: str | Path) -> Sources:
    """Read a script and everything that ships with it.

    Raises:
        UsageError: no such script, one that does not parse or has no `main`, a declared file that is not there.
    """
    script = Path(path)
    if not script.is_file():
        raise UsageError(f"there is no script {path}; give the path of a Python file with async def main(flow, args)")
    if script.suffix != ".py" or "." in script.stem:
        raise UsageError(f"{path} is no script's name; rename it to end in .py, with no other dot in it")
    folder = script.resolve().parent
    files: dict[str, bytes] = {}
    waiting = [script.resolve().name]
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        files[name] = _read(folder, name)
        if name.endswith(".py"):
            tree = parse(name, files[name])
            waiting += sorted(module for module in _imported(tree, folder, name) if module not in files)
            waiting += [flow for flow in _workflows(tree) if flow not in files]
            waiting += [data for data in _declared(name, tree) if data not in files]
    require_main(script.name, parse(script.name, files[script.resolve().name]))
    return Sources(script.resolve().name, files)


def parse(name: str, raw: bytes) -> ast.Module:
    """A source file's tree.

    Raises:
        UsageError: it is no Python of this interpreter.
    """
    try:
        return ast.parse(raw, filename=name)
    except SyntaxError as error:
        raise UsageError(f"{name} line {error.lineno or 1} does not parse: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"{name} does not parse: {error}") from None
    except (RecursionError, MemoryError):
        # What Python says of an expression of thousands of parts.
        raise UsageError(f"{name} does not parse: it is nested too deeply; split its longest expression") from None


def require_main(name: str, tree: ast.Module) -> None:
    """Refuse a script without `async def main(flow, args)`.

    Raises:
        UsageError: it has none, or one that cannot be called so.
    """
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "main":
            if isinstance(node, ast.FunctionDef) or _yields(node):
                raise UsageError(f"{name} line {node.lineno}: main must be async def main(flow, args), without a yield")
            takes = len(node.args.posonlyargs) + len(node.args.args)
            required = takes - len(node.args.defaults)
            asks_more = any(default is None for default in node.args.kw_defaults)
            if asks_more or ((required > 2 or takes < 2) and not node.args.vararg):
                raise UsageError(f"{name} line {node.lineno}: main takes two arguments, main(flow, args)")
            return
    raise UsageError(f"{name} has no main; write async def main(flow, args): at its top level")


def _yields(main: ast.AsyncFunctionDef) -> bool:
    """Whether it is a generator, which nobody can await."""
    inside: list[ast.AST] = list(main.body)
    while inside:
        node = inside.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            inside += ast.iter_child_nodes(node)
    return False


def _read(folder: Path, name: str) -> bytes:
    try:
        return _read_file(folder, name)
    except (OSError, ValueError) as error:
        raise UsageError(f"the script names {name[:80]!r}, which cannot be read: {error}") from None


def _read_file(folder: Path, name: str) -> bytes:
    path = folder / name
    if not path.resolve().is_relative_to(folder):
        raise UsageError(f"{name} leaves the script's folder; only files in it ship with a run")
    if not path.is_file():
        raise UsageError(f"the script names {name}, which is no file in its folder; add it or correct the name")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise UsageError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB; what ships with a run must be smaller")
    return path.read_bytes()


def _imported(tree: ast.Module, folder: Path, name: str) -> Iterator[str]:
    package = PurePosixPath(name).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(folder, PurePosixPath(), alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            start = PurePosixPath() if node.level == 0 else package
            for _ in range(node.level - 1):
                start = start.parent
            parts = node.module.split(".") if node.module else []
            yield from _module_files(folder, start, parts)
            for alias in node.names:
                yield from _module_files(folder, start, [*parts, alias.name])


def _module_files(folder: Path, start: PurePosixPath, parts: list[str]) -> Iterator[str]:
    """The files of `a.b.c` under the folder: each package's `__init__` on the way, then the module."""
    for depth in range(1, len(parts) + 1):
        place = start.joinpath(*parts[:depth])
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if (folder / candidate).is_file():
                yield str(candidate)
                break


def _workflows(tree: ast.Module) -> Iterator[str]:
    """Scripts named as literals in `flow.workflow("name.py", ...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "workflow":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield str(PurePosixPath(first.value))


def _declared(name: str, tree: ast.Module) -> list[str]:
    """The names in a module-level list `files`."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(target, ast.Name) and target.id == "files" for target in targets):
            continue
        try:
            value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
        except (ValueError, TypeError):
            value = None
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
            raise UsageError(f"{name} line {node.lineno}: files must be a list of file names, written out")
        for entry in value:
            if PurePosixPath(entry).is_absolute() or ".." in PurePosixPath(entry).parts:
                raise UsageError(f"{name} line {node.lineno}: {entry} leaves the script's folder")
        return [str(PurePosixPath(entry)) for entry in value]
    return []
