"""Which hosts the suite runs on, and the counts it leaves behind."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.hosts import FAKE, ContractHost, installed_version

_counts: dict[str, Counter[str]] = defaultdict(Counter)
_host_of: dict[str, str] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "host_name" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--hosts")
    names = asked.split(",") if asked else [FAKE, *filter(None, [installed_version()])]
    shown = pytest.mark.req("S31")
    params = [pytest.param(name, marks=[shown] if name == FAKE else [shown, pytest.mark.real]) for name in names]
    metafunc.parametrize("host_name", params, scope="session")


@pytest.fixture(scope="session")
def host(host_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContractHost]:
    """A host that many cases share; no case may stop its server."""
    shared = ContractHost(host_name, tmp_path_factory.mktemp(f"host-{host_name}"))
    yield shared
    shared.close()


@pytest.fixture
def own_host(host_name: str, tmp_path: Path) -> Iterator[ContractHost]:
    """A host of one case alone, whose server it may kill."""
    own = ContractHost(host_name, tmp_path)
    yield own
    own.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            host_name = item.callspec.params.get("host_name")
            if host_name is not None:
                _host_of[item.nodeid] = str(host_name)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # A case counts once: at its call, or at the set-up that kept it from running.
    host_name = _host_of.get(report.nodeid)
    if host_name and (report.when == "call" or (report.when == "setup" and report.failed)):
        _counts[host_name]["passed" if report.passed else "failed"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--contract-report")
    if target:
        hosts = {name: {"passed": seen["passed"], "failed": seen["failed"]} for name, seen in _counts.items()}
        Path(target).write_text(json.dumps({"hosts": hosts}, indent=2) + "\n")
