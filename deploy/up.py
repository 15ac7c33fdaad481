"""`crw up`: a farm of one host on this machine, with its data kept in the state directory, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

from deploy.flower import load_or_make_password
from deploy.health import scheduler_is_up, worker_is_up
from deploy.laptop import Laptop, Stopped, stop_on_signals
from deploy.processes import ChildDied, program
from deploy.scripted import as_variables, scripted_settings, start_model
from shared.base.errors import UsageError
from shared.base.log import mask_url
from shared.base.running_farm import RunningFarm
from shared.base.settings import Settings, config_file
from shared.journal.database import Database

START_SECONDS = 90.0
# The processes drain for as long as the settings say; what does not end then is killed.
_STOP_MARGIN_SECONDS = 5.0


def run_up(settings: Settings, *, scripted: bool = False, say: Callable[[str], None] = print) -> int:
    """Bring the farm up and keep it up until a signal or the death of one of its processes.

    Args:
        scripted: put the demo's scripted model behind every role that has no model of its own.

    Returns:
        0 after a signal, 1 when a process died (its log's end was said).

    Raises:
        UsageError: another farm is configured, another `crw up` runs, or the directory cannot be used.
        EmbeddedError: a bundled server did not start.
    """
    # The lock first: with another `crw up` running, its addresses would pass for configured ones.
    farm = RunningFarm(settings.state_dir)
    for name, url in (("database_url", settings.database_url), ("broker_url", settings.broker_url)):
        if url:
            farm.close()
            raise UsageError(
                f"crw up brings a database and a broker of its own, but {name} is configured as {mask_url(url)}: "
                "unset it, or run crw scheduler and crw worker on that farm"
            )
    try:
        with stop_on_signals(), contextlib.ExitStack() as stack:
            try:
                _run(settings, farm, scripted, say, stack)
            except Stopped as stopped:
                say(f"{stopped}: stopping")
            except ChildDied as died:
                say(str(died))
                return 1
            finally:
                stack.close()
        return 0
    finally:
        farm.close()


def _run(
    settings: Settings, farm: RunningFarm, scripted: bool, say: Callable[[str], None], stack: contextlib.ExitStack
) -> None:
    extra: dict[str, Any] = {}
    if scripted:
        model = start_model()
        stack.callback(model.stop)
        extra = scripted_settings(model.base_url, settings.roles)
    say(f"starting on {settings.state_dir}")
    laptop = stack.enter_context(Laptop(settings.state_dir, stop_seconds=settings.drain_seconds + _STOP_MARGIN_SECONDS))
    environment = _environment(settings) | as_variables(extra)
    laptop.start("scheduler", "scheduler.service", environment)
    laptop.start("worker", "workers.app", environment)
    _start_flower(settings, laptop, environment, say)
    database = Database(laptop.database_url, process="up", pool_size=1)
    stack.callback(database.close)
    ready = laptop.wait_until(
        lambda: scheduler_is_up(database) and worker_is_up(database, settings.host_name), START_SECONDS
    )
    if not ready:
        raise ChildDied(
            f"scheduler and worker did not report within {START_SECONDS:.0f} s; their logs are in {laptop.logs}"
        )
    announced = {"database_url": laptop.database_url, "broker_url": laptop.broker_url, **extra}
    with farm.announced(announced):
        _say_ready(settings, laptop, scripted, say)
        laptop.wait_until(lambda: False)


def _environment(settings: Settings) -> dict[str, str]:
    """The children's environment: the user's own, and what their other working directory would hide."""
    environment = {
        **os.environ,
        "CRW_STATE_DIR": str(settings.state_dir),
        "CRW_HOST_NAME": settings.host_name,
        "PYTHONUNBUFFERED": "1",
    }
    file = config_file()
    if file is not None:
        environment["CRW_CONFIG"] = str(file.absolute())
    return environment


def _start_flower(settings: Settings, laptop: Laptop, environment: dict[str, str], say: Callable[[str], None]) -> None:
    flower = settings.flower
    port = flower.port if _is_free(flower.address, flower.port) else 0
    if port == 0:
        port = free_port(flower.address)
    password_file = settings.state_dir / "flower-password"
    password, made = (flower.password, False) if flower.password else load_or_make_password(password_file)
    laptop.start(
        "flower",
        "deploy.flower",
        {**environment, "CRW_FLOWER__PASSWORD": password or "", "CRW_FLOWER__PORT": str(port)},
    )
    secret = f"password {password}, kept in {password_file}" if made else f"password in {password_file}"
    if flower.password:
        secret = "the configured password"
    say(f"Flower:     http://{flower.address}:{port}  login {flower.user}, {secret}")


def free_port(address: str = "127.0.0.1") -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return port != 0


def _say_ready(settings: Settings, laptop: Laptop, scripted: bool, say: Callable[[str], None]) -> None:
    crw = program()
    say(f"logs:       {laptop.logs}")
    say("")
    say("The farm is up. In another terminal, nothing else needs to be configured:")
    if os.environ.get("CRW_STATE_DIR"):
        say(f"    export CRW_STATE_DIR={settings.state_dir}")
    say(f"    {crw} doctor")
    if not scripted and not any(role.model for role in settings.roles.values()):
        say(f"    {crw} host login       # and name a model for each role in crw.toml, see deploy/crw.toml.example")
    say(f"    {crw} flow start my_flow.py --repo . --watch")
    say("Programs that do not read the state directory need:")
    say(f"    export CRW_DATABASE_URL='{laptop.database_url}'")
    say(f"    export CRW_BROKER_URL='{laptop.broker_url}'")
    say("")
    say("Ctrl-C stops everything; runs go on when it is up again.")
