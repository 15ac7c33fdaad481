"""Find in a script, without running it, what a replay could not repeat and what would be refused later.

Three kinds of findings: `error` is wrong whatever happens (an unknown role, op or
schema that stands in the script as a literal); `effect` acts outside `flow.*`;
`nondeterminism` reads what another process would read differently. The first is
always refused, the others unless the user takes the responsibility.
Source: design of the farm, "The flow script"; rules of the protocol, 13 and 47.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.flow import literals
from scheduler.flow.literals import Known
from scheduler.flow.sources import Sources, collect, parse


@dataclass(frozen=True, order=True)
class Finding:
    """One finding. Shape: `kind` is error, effect or nondeterminism; `str(finding)` is the line to print."""

    file: str
    line: int
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.sentence}"


_CLOCK = "reads the clock of whatever machine runs it; use await flow.clock()"
_RANDOM = "gives another value at each replay; take the value from args or from an agent's answer"
_ENVIRONMENT = "reads the environment of whatever machine runs it; pass the value in args"
_NETWORK = "reaches the network from the scheduler; let an agent or flow.crw.verify do it"
_THREADS = "starts threads or processes whose order is no identity; use flow.parallel"
_FILES = 'touches files of whatever machine runs it; ship data with files = ["name"] and read it with flow.file("name")'
_COMMANDS = "runs a command in the scheduler; use flow.crw.verify"
_ORDER = "decides by who finishes first; use flow.parallel, whose items are known by their key"
_SLEEP = "is forgotten when the scheduler restarts; use await flow.sleep(seconds)"
_CODE = "runs code that no check has seen"

# Dotted name (or the module in front of it) -> kind and sentence. The longest match counts.
_NAMES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("time.sleep", "asyncio.sleep"), ("nondeterminism", _SLEEP)),
    **dict.fromkeys(
        (
            "time", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
            "datetime.date.today",
        ),
        ("nondeterminism", _CLOCK),
    ),
    **dict.fromkeys(("random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "id"), ("nondeterminism", _RANDOM)),
    **dict.fromkeys(
        (
            "os.environ", "os.getenv", "os.getcwd", "os.getpid", "os.uname", "os.cpu_count", "platform", "getpass",
            "sys.argv", "locale",
        ),
        ("nondeterminism", _ENVIRONMENT),
    ),
    **dict.fromkeys(
        (
            "socket", "ssl", "urllib.request", "http.client", "http.server", "ftplib", "smtplib", "poplib", "imaplib",
            "xmlrpc", "socketserver", "asyncio.open_connection", "asyncio.start_server", "requests", "httpx",
        ),
        ("effect", _NETWORK),
    ),
    **dict.fromkeys(
        (
            "threading", "_thread", "multiprocessing", "concurrent.futures", "asyncio.to_thread", "signal",
            "asyncio.run", "asyncio.get_event_loop", "asyncio.get_running_loop",
        ),
        ("nondeterminism", _THREADS),
    ),
    **dict.fromkeys(
        (
            "asyncio.gather", "asyncio.wait", "asyncio.as_completed", "asyncio.create_task", "asyncio.ensure_future",
            "asyncio.TaskGroup", "asyncio.wait_for", "asyncio.timeout",
        ),
        ("nondeterminism", _ORDER),
    ),
    **dict.fromkeys(
        (
            "subprocess", "os.system", "os.popen", "os.fork", "os.kill", "pty", "asyncio.create_subprocess_exec",
            "asyncio.create_subprocess_shell",
        ),
        ("effect", _COMMANDS),
    ),
    **dict.fromkeys(
        (
            "open", "io.open", "input", "shutil", "tempfile", "glob", "sqlite3", "os.remove", "os.unlink", "os.rename",
            "os.replace", "os.mkdir", "os.makedirs", "os.rmdir", "os.listdir", "os.scandir", "os.walk", "os.stat",
            "os.open", "os.write", "os.chdir", "os.path.exists", "os.path.isfile", "os.path.isdir",
        ),
        ("effect", _FILES),
    ),
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "importlib", "ctypes"), ("effect", _CODE)),
    "print": ("effect", "writes to the scheduler's own output; use flow.log"),
}  # fmt: skip

_FILE_METHODS = frozenset(
    {"read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "rmdir", "touch", "iterdir", "rglob"}
)


def check(path: str | Path, known: Known) -> list[Finding]:
    """All findings of a script and the modules that ship with it.

    Raises:
        UsageError: the script cannot be read at all (`collect`).
    """
    return check_sources(collect(path), known)


def check_sources(sources: Sources, known: Known) -> list[Finding]:
    """The findings of collected sources, in the order of file and line."""
    found: set[Finding] = set()
    for name, raw in sources.files.items():
        if name.endswith(".py"):
            tree = parse(name, raw)
            found.update(_nondeterminism(name, tree, sources))
            found.update(_missing_files(name, tree, sources))
            found.update(
                Finding(name, line, "error", sentence) for line, sentence in literals.literal_errors(tree, known)
            )
    return sorted(found)


def refusals(findings: Sequence[Finding], trust_effects: bool = False) -> list[Finding]:
    """The findings for which a submit is refused."""
    return [finding for finding in findings if finding.kind == "error" or not trust_effects]


def _nondeterminism(name: str, tree: ast.Module, sources: Sources) -> Iterator[Finding]:
    aliases = _aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(name, node, sources)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _named(name, node, _dotted(node, aliases))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from _named(name, node, aliases.get(node.id, node.id))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILE_METHODS:
            yield Finding(name, node.lineno, "effect", f".{node.func.attr}() {_FILES}")
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield Finding(
                name,
                statement.lineno,
                "effect",
                "this call at the top level happens again at each load of the script; move it into main",
            )


def _missing_files(name: str, tree: ast.Module, sources: Sources) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "file"):
            continue
        wanted = node.args[0] if node.args and isinstance(node.func.value, ast.Name) else None
        if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) and wanted.value not in sources.files:
            mend = f'add it to files = ["{wanted.value}"] at the top level'
            yield Finding(
                name, node.lineno, "error", f"flow.file: {wanted.value} does not ship with the script; {mend}"
            )


def _imports(name: str, node: ast.Import | ast.ImportFrom, sources: Sources) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    own: Collection[str] = {file.split("/")[0].removesuffix(".py") for file in sources.files if file.endswith(".py")}
    for module in modules:
        top = module.partition(".")[0]
        if top in own or top in sys.stdlib_module_names:
            continue
        yield Finding(
            name,
            node.lineno,
            "error",
            f"import {module}: only the standard library and modules in the script's folder ship with a run",
        )


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Name in the file -> the dotted name it stands for."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                known[alias.asname or target] = target
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.setdefault(node.name, f"<own>.{node.name}")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.setdefault(node.id, f"<own>.{node.id}")
        elif isinstance(node, ast.arg):
            known.setdefault(node.arg, f"<own>.{node.arg}")
    return known


def _dotted(node: ast.Attribute, aliases: dict[str, str]) -> str:
    parts = [node.attr]
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ""
    parts.append(aliases.get(inner.id, f"<own>.{inner.id}"))
    return ".".join(reversed(parts))


def _named(file: str, node: ast.expr, dotted: str) -> Iterator[Finding]:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        rule = _NAMES.get(".".join(parts[:length]))
        # A bare module name is only how a member is reached; the member is what is judged.
        if rule and (length > 1 or len(parts) > 1 or not _is_module(parts[0])):
            yield Finding(file, node.lineno, rule[0], f"{'.'.join(parts[:length])} {rule[1]}")
            return


def _is_module(name: str) -> bool:
    return name in sys.stdlib_module_names
