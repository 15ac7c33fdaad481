"""One worker in this process, closed after the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deploy.embedded import Valkey
from tests.integration.call.desk import OneWorker


@pytest.fixture
def make_worker(fresh_database: str, valkey: Valkey, tmp_path: Path) -> Iterator[Callable[..., OneWorker]]:
    """Makes the test's worker, with changes of the run's spec."""
    with ExitStack() as stack:
        yield lambda **spec: stack.enter_context(closing(OneWorker(fresh_database, valkey, tmp_path, **spec)))


@pytest.fixture
def one(make_worker: Callable[..., OneWorker]) -> OneWorker:
    """The test's worker, for a plain run."""
    return make_worker()
