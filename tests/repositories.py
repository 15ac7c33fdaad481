"""Small real git repositories for tests, made with plain git: the code under test has no part in them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A Person"), ("EMAIL", "person@example.org"), ("DATE", "1700000000 +0000"))
}


def git(directory: Path, *args: str, input: bytes | None = None, check: bool = True) -> str:
    """Run git as a user would, with a fixed identity; its output without the last newline."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment.update(_WHO, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", LC_ALL="C")
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *args],
        cwd=directory,
        env=environment,
        input=input,
        capture_output=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write text files below a directory."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commit_files(repository: Path, files: Mapping[str, str], message: str = "change") -> str:
    """Write files, commit everything, return the commit."""
    write_files(repository, files)
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def make_repository(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """A repository with one commit on `main`."""
    path.mkdir(parents=True)
    git(path, "init", "-q")
    commit_files(path, files or {"README.md": "hello\n", "src/app.txt": "one\ntwo\nthree\n"}, "first")
    return path


def make_bare_hub(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """A bare repository with one commit on `main`."""
    work = make_repository(path.with_name(path.name + "-work"), files)
    git(path.parent, "clone", "-q", "--bare", str(work), str(path))
    return path


def refuse_pushes(hub: Path, says: str = "no pushes today") -> Path:
    """Have a bare hub refuse every push for good; the hook, to be removed when pushes are admitted again."""
    hook = hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho {says} >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    return hook


@contextmanager
def served(root: Path, writable: bool = True) -> Iterator[str]:
    """`git://` for the repositories below `root`: a hub that is a URL. Yields the URL of `root`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    enable = ["--enable=receive-pack"] if writable else []
    daemon = subprocess.Popen(
        [
            "git",
            "daemon",
            "--reuseaddr",
            "--export-all",
            "--listen=127.0.0.1",
            f"--port={port}",
            f"--base-path={root}",
            *enable,
            str(root),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: _answers(port), 10, "git daemon to listen")
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(daemon.pid, 15)
        daemon.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
