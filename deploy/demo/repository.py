"""The demo's repository: a tiny Python package with its tests, an ordinary clone's worth of git.

It is a real repository on disk, so everything the farm does to a user's repository
(mirror, worktrees, commits, an atomic push of the target) happens to this one too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MAIN = "main"
_WHEN = "2026-01-05T09:00:00+00:00"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "A. Developer",
    "GIT_AUTHOR_EMAIL": "developer@example.org",
    "GIT_COMMITTER_NAME": "A. Developer",
    "GIT_COMMITTER_EMAIL": "developer@example.org",
    "GIT_AUTHOR_DATE": _WHEN,
    "GIT_COMMITTER_DATE": _WHEN,
}

FILES = {
    "README.md": "# wordkit\n\nSmall functions for words. Run the tests with `python -m unittest`.\n",
    ".gitignore": "__pycache__/\n",
    "wordkit/__init__.py": '"""Small functions for words, one module each."""\n',
    "wordkit/slug.py": '''\
"""Text for addresses."""

import re


def slug(text: str) -> str:
    """The text in lower case, its words joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))
''',
    "tests/__init__.py": "",
    "tests/test_slug.py": """\
import unittest

from wordkit.slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined_by_hyphens(self) -> None:
        self.assertEqual(slug("Hello, small World!"), "hello-small-world")

    def test_no_word_gives_an_empty_slug(self) -> None:
        self.assertEqual(slug("?!"), "")
""",
}


def make_repository(directory: Path) -> Path:
    """Write the package into `directory` and commit it on `main`; the same commit on every machine.

    Writes: files, and a git repository with one commit.

    Raises:
        OSError: git is not installed, or the directory cannot be written.
        subprocess.CalledProcessError: git refused.
    """
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _git(directory, "init", "--quiet", f"--initial-branch={MAIN}")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message", "Start wordkit with one function")
    return directory


def show_graph(repository: Path, *references: str, color: bool = False) -> str:
    """`git log --graph` of what the references reach, one line a commit."""
    layout = "%C(auto)%h%d %s" if color else "%h%d %s"
    return _git(
        repository, "log", "--graph", f"--color={'always' if color else 'never'}", f"--format={layout}", *references
    )


def read_commit(repository: Path, reference: str) -> str:
    """The commit a reference names."""
    return _git(repository, "rev-parse", "--verify", f"{reference}^{{commit}}").strip()


def read_tree(repository: Path, reference: str) -> str:
    """The tree of the commit a reference names."""
    return _git(repository, "rev-parse", "--verify", f"{reference}^{{tree}}").strip()


def _git(directory: Path, *arguments: str) -> str:
    # A user's own hooks, templates and signing must not reach the demo, nor may a surrounding repository's variables.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= _IDENTITY | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(directory), "-c", "init.templateDir=", "-c", "commit.gpgSign=false", *arguments],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout
