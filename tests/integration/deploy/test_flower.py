"""A running Flower, asked through its API: who may look, what it shows, and that it can do nothing."""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.embedded import Valkey
from deploy.processes import Child, clean_environment, listen, stop_all
from deploy.up import load_or_make_password
from shared.broker.publish import Publisher
from tests.integration.messages.conftest import RECORDING_WORKER, Message
from tests.waiting import wait_until

PASSWORD = "sesame-opens"


class FlowerSite:
    """The running Flower. `ask` gives status and body."""

    def __init__(self, port: int, child: Child) -> None:
        self.port, self.child = port, child

    def ask(self, path: str, *, method: str = "GET", login: str | None = f"crw:{PASSWORD}") -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if login:
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, data=b"" if method == "POST" else None, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def tasks(self, search: str = "") -> dict[str, dict[str, Any]]:
        status, body = self.ask("/api/tasks?" + urllib.parse.urlencode({"search": search} if search else {}))
        return json.loads(body) if status == 200 else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerSite]:
    """Flower and one recording worker on a Valkey of their own, with four calls done."""
    directory = tmp_path_factory.mktemp("flower")
    with Valkey(directory / "valkey") as server:
        port = _free_port()
        environment = clean_environment(
            CRW_BROKER_URL=server.url,
            CRW_FLOWER__PORT=str(port),
            CRW_FLOWER__PASSWORD=PASSWORD,
            CRW_TEST_RECORD=str(directory / "record"),
            PYTHONPATH=os.environ.get("PYTHONPATH", str(Path.cwd())),
        )
        site_child = Child(
            "flower", "deploy.flower", log=directory / "flower.log", environment=environment, cwd=directory
        )
        worker = Child(
            "worker", "celery", RECORDING_WORKER, log=directory / "worker.log", environment=environment, cwd=directory
        )
        site = FlowerSite(port, site_child)
        children = [site_child, worker]
        try:
            for child in children:
                child.start()
            wait_until(lambda: site.ask("/healthcheck")[0] == 200 or site_child.check(), 30, "Flower to answer")
            wait_until(lambda: "ready." in worker.log.read_text() or worker.check(), 30, "the worker to be ready")
            # What was told before Flower listened is lost to it, so first it must have heard the worker.
            wait_until(lambda: "h1@test" in site.ask("/metrics")[1], 30, "Flower to hear the worker")
            publisher = Publisher(server.url)
            publisher.send(
                [
                    Message("c1", run_id="rabcd", role="executor", node_id="parser", label="first try"),
                    Message("c2", run_id="rabcd", role="reviewer", node_id="parser"),
                    Message("c3", run_id="rabcd", kind="verify", role=None, node_id="lexer"),
                    Message("c4", run_id="rwxyz", kind="commit", role=None, node_id="lexer"),
                ]
            )
            publisher.close()
            wait_until(lambda: len(site.tasks()) == 4, 30, "four tasks in Flower")
            yield site
        finally:
            stop_all(children, 10)


def test_nobody_looks_without_the_password(flower: FlowerSite) -> None:
    for path in ("/", "/tasks", "/api/tasks", "/api/workers", "/metrics"):
        assert flower.ask(path, login=None)[0] == 401
        assert flower.ask(path, login="crw:guessed")[0] == 401
        assert flower.ask(path)[0] == 200


def test_a_call_is_a_task_named_by_its_role_or_op(flower: FlowerSite) -> None:
    names = {uuid: task["name"] for uuid, task in flower.tasks().items()}
    assert names == {
        "c1.q1.p1": "crw.agent.executor",
        "c2.q1.p1": "crw.agent.reviewer",
        "c3.q1.p1": "crw.op.verify",
        "c4.q1.p1": "crw.op.commit",
    }


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("kwargs:rabcd", {"c1", "c2", "c3"}),
        ("node=lexer", {"c3", "c4"}),
        ("role=reviewer", {"c2"}),
        ("label=first-try", {"c1"}),
        ("crw.op.commit", {"c4"}),
        ("run=rabcd AND node=parser", {"c1", "c2"}),
        ("run=rabcd", {"c1", "c2", "c3"}),
        ("run=nobody", set()),
    ],
)
def test_tasks_are_found_by_run_node_role_and_label(flower: FlowerSite, search: str, found: set[str]) -> None:
    assert {uuid.split(".")[0] for uuid in flower.tasks(search)} == found


@pytest.mark.req("RULE23")
@pytest.mark.parametrize(
    "path",
    [
        "/api/task/revoke/c1.q1.p1?terminate=true",
        "/api/worker/shutdown/h1@test",
        "/api/worker/queue/cancel-consumer/h1@test?queue=farm",
        "/api/task/async-apply/crw.call",
        "/api/task/send-task/crw.call",
    ],
)
def test_no_button_of_flower_works(flower: FlowerSite, path: str) -> None:
    assert flower.ask(path, method="POST")[0] == 403


def test_the_password_stands_in_no_command_line(flower: FlowerSite) -> None:
    assert PASSWORD not in " ".join(psutil.Process(flower.child.pid).cmdline())


def test_the_page_of_tasks_has_the_columns_that_people_search(flower: FlowerSite) -> None:
    page = flower.ask("/tasks")[1]
    assert all(f"<th>{title}</th>" in page or title in page for title in ("Name", "kwargs", "Worker"))


def test_flower_without_a_password_does_not_start(valkey_server: Valkey, tmp_path: Path) -> None:
    environment = clean_environment(
        CRW_BROKER_URL=valkey_server.url, PYTHONPATH=os.environ.get("PYTHONPATH", str(Path.cwd()))
    )
    child = Child("flower", "deploy.flower", log=tmp_path / "log", environment=environment, cwd=tmp_path)
    child.start()
    wait_until(lambda: not child.running, 30, "Flower to refuse")
    assert "CRW_FLOWER__PASSWORD" in child.log.read_text()
    with pytest.raises(Exception, match="status 2"):
        child.check()


def test_a_password_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    first, made = load_or_make_password(tmp_path / "password")
    again, made_again = load_or_make_password(tmp_path / "password")
    assert (first == again, made, made_again) == (True, True, False)
    assert len(first) >= 24 and stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    with listen("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with listen("127.0.0.1", taken) as second:
            assert second.getsockname()[1] not in (0, taken)
