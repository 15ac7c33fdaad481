"""Load a run's script from its recorded sources, apart from every other run in the process.

Each run has an importer of its own: its modules live under a package name that
contains the run id and the digest of its sources, are executed anew, and import
each other and the standard library, nothing else. `sys.path` is never asked, so
two runs with a `helpers.py` each get their own.
Source: rules of the protocol, 13.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import linecache
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import PurePosixPath
from types import CodeType, ModuleType, TracebackType
from typing import Any

from shared.base.canonical import digest_bytes, digest_json
from shared.base.errors import FlowError

Main = Callable[[Any, Any], Awaitable[Any]]


class _Modules(InspectLoader):
    """The modules of one run: its sources by name, and how they are executed."""

    def __init__(self, package: str, sources: Mapping[str, bytes]) -> None:
        self.package = package
        self.sources = sources
        self._own_import = self._make_import()

    def find(self, fullname: str) -> ModuleSpec | None:
        """The spec of one of the run's modules, packages and folders included."""
        name = self._file_of(fullname)
        if name is None and not self._is_folder(fullname):
            return None
        is_package = name is None or name.endswith("__init__.py")
        spec = ModuleSpec(fullname, self, origin=name and self.filename(name), is_package=is_package)
        spec.has_location = False
        return spec

    def filename(self, name: str) -> str:
        """What a module's code carries as its file name: unique for the run, and no path on disk."""
        return f"<{self.package}>/{name}"

    def get_source(self, fullname: str) -> str | None:
        """A module's text; None where a folder stands for a package."""
        name = self._file_of(fullname)
        return None if name is None else importlib.util.decode_source(self.sources[name])

    def get_code(self, fullname: str) -> CodeType | None:
        """A module's code; None where a folder stands for a package."""
        name = self._file_of(fullname)
        if name is None:
            return None
        code: CodeType = compile(self.sources[name], self.filename(name), "exec", dont_inherit=True)
        return code

    def is_package(self, fullname: str) -> bool:
        """Whether a module has modules under it."""
        name = self._file_of(fullname)
        return name is None or name.endswith("__init__.py")

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module with an `import` that knows the run's own modules by their plain names."""
        code = self.get_code(module.__name__)
        if code is not None:
            module.__dict__["__builtins__"] = {**builtins.__dict__, "__import__": self._own_import}
            exec(code, module.__dict__)

    def _parts(self, fullname: str) -> list[str]:
        return fullname.split(".")[1:]

    def _file_of(self, fullname: str) -> str | None:
        parts = self._parts(fullname)
        for candidate in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
            if candidate in self.sources:
                return candidate
        return None

    def _is_folder(self, fullname: str) -> bool:
        prefix = "".join(part + "/" for part in self._parts(fullname))
        return any(name.startswith(prefix) and name.endswith(".py") for name in self.sources)

    def _owns(self, top: str) -> bool:
        return f"{top}.py" in self.sources or self._is_folder(f"{self.package}.{top}")

    def _make_import(self) -> Callable[..., ModuleType]:
        def own_import(
            name: str,
            globals: Mapping[str, Any] | None = None,
            locals: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] = (),
            level: int = 0,
        ) -> ModuleType:
            if level:
                return builtins.__import__(name, globals, locals, fromlist, level)
            top = name.partition(".")[0]
            if self._owns(top):
                full = f"{self.package}.{name}"
                importlib.import_module(full)
                if not fromlist:
                    return sys.modules[f"{self.package}.{top}"]
                return builtins.__import__(full, globals, locals, fromlist, 0)
            if top not in sys.stdlib_module_names:
                raise ImportError(
                    f"{name} is not shipped with the run: only the standard library and modules beside the script are",
                    name=name,
                )
            return builtins.__import__(name, globals, locals, fromlist, 0)

        return own_import


class _Finder(MetaPathFinder):
    """One finder for all runs of the process: the first part of a name says whose module it is."""

    def __init__(self) -> None:
        self.runs: dict[str, _Modules] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        modules = self.runs.get(fullname.partition(".")[0])
        return modules.find(fullname) if modules else None


_FINDER = _Finder()


class Script:
    """A loaded script: its main functions, its data files, and which frames of a traceback are its own."""

    def __init__(self, run_id: str, script: str, sources: Mapping[str, bytes]) -> None:
        digest = digest_json({name: digest_bytes(raw) for name, raw in sources.items()})
        self.name = script
        self._package = f"crw_flow_{run_id}_{digest[:16]}"
        self._modules = _Modules(self._package, sources)
        self._sources = sources

    def load(self) -> Main:
        """Execute the script's modules and return its main.

        Raises:
            Exception: whatever the script's top level raises.
        """
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        _FINDER.runs[self._package] = self._modules
        for name, raw in self._sources.items():
            if name.endswith(".py"):
                # For tracebacks; entries without a modification time are never checked against a disk.
                text = raw.decode("utf-8", "replace")
                linecache.cache[self._modules.filename(name)] = (len(raw), None, text.splitlines(True), name)
        return self.main_of(self.name)

    def main_of(self, name: str) -> Main:
        """The main of one of the run's scripts.

        Raises:
            FlowError: no such script among the sources, or it has no main.
        """
        path = PurePosixPath(name)
        if str(path) not in self._sources or path.suffix != ".py":
            raise FlowError(f"{name} is not among the run's sources; name it in files = [...] beside the script")
        module = importlib.import_module(".".join([self._package, *path.with_suffix("").parts]))
        main = getattr(module, "main", None)
        if not inspect.iscoroutinefunction(main):
            raise FlowError(f"{name} has no async main; write async def main(flow, args): at its top level")
        return main

    def file(self, name: str) -> bytes:
        """A file that ships with the script.

        Raises:
            FlowError: it does not ship with it.
        """
        raw = self._sources.get(str(PurePosixPath(name)))
        if raw is None:
            raise FlowError(f'{name} does not ship with the script; add it to files = ["{name}"] at its top level')
        return raw

    def frames(self, trace: TracebackType | None) -> list[tuple[str, int, str, str]]:
        """The script's own frames of a traceback, outermost first: `(file, line, function, text)`."""
        prefix = self._modules.filename("")
        found: list[tuple[str, int, str, str]] = []
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename.startswith(prefix):
                text = linecache.getline(code.co_filename, trace.tb_lineno).strip()
                found.append((code.co_filename.removeprefix(prefix), trace.tb_lineno, code.co_name, text))
            trace = trace.tb_next
        return found

    def unload(self) -> None:
        """Forget the run's modules."""
        _FINDER.runs.pop(self._package, None)
        for name in [name for name in sys.modules if name == self._package or name.startswith(self._package + ".")]:
            del sys.modules[name]
        for name in self._sources:
            linecache.cache.pop(self._modules.filename(name), None)
