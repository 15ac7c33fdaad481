"""What every test has: a home of its own, and `--req`, which lists requirement lines and rules with their tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict

import pytest

from tests.services import databases, empty_database, farm, fresh_database, postgres, valkey, valkey_server

__all__ = ["databases", "empty_database", "farm", "fresh_database", "postgres", "valkey", "valkey_server"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--req", action="store_true", help="list requirement lines and rules with their tests; run nothing"
    )
    # Options are read before a folder's own conftest is: those of the contract suite stand here.
    parser.addoption("--hosts", help="hosts of the contract suite: fake and App Server versions, with commas between")
    parser.addoption("--contract-report", help="file for the contract suite's counts by host")


def pytest_configure(config: pytest.Config) -> None:
    # What a person's shell profile and git configuration do must not be part of any test: the App Server
    # runs the login shell, and git reads its user's settings. Every child process inherits this home.
    home = tempfile.mkdtemp(prefix="crw-test-home-")
    os.environ["HOME"] = home
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--req"):
        return
    shown: dict[str, list[str]] = defaultdict(list)
    for item in items:
        for marker in item.iter_markers("req"):
            for name in marker.args:
                shown[name].append(item.nodeid)
    for name in sorted(shown):
        print(name)
        for node in dict.fromkeys(shown[name]):
            print(f"    {node}")
    print(f"{len(shown)} lines and rules have a test")
    items.clear()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # A listing is a success although it ran nothing.
    if session.config.getoption("--req") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
