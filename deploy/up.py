"""`crw up`: a farm of one host on this machine, with its data kept in the state directory, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.health import scheduler_is_up, worker_is_up
from deploy.laptop import START_SECONDS, Laptop, Stopped, stop_on_signals
from deploy.processes import ChildDied, program
from deploy.scripted import as_variables, scripted_settings, start_model
from shared.base.disk import check_room
from shared.base.errors import UsageError
from shared.base.log import mask_url
from shared.base.running_farm import RunningFarm
from shared.base.settings import Settings, config_file
from shared.journal.database import Database

# The processes drain for as long as the settings say; what does not end then is killed.
_STOP_MARGIN_SECONDS = 5.0


def _say(text: str) -> None:
    # At once also where nobody has a terminal: a log file, a pipe, a supervisor.
    print(text, flush=True)


def run_up(settings: Settings, *, scripted: bool = False, say: Callable[[str], None] = _say) -> int:
    """Bring the farm up and keep it up until a signal; what dies is started again, at a limited rate.

    Args:
        scripted: put the demo's scripted model behind every role that has no model of its own.

    Returns:
        0 after a signal, 1 when a process died during the start or again and again (its log's end was said).

    Raises:
        UsageError: another farm is configured, another `crw up` runs, or the directory cannot be used or is too full.
        EmbeddedError: a bundled server did not start.
    """
    check_room(settings.state_dir, settings.min_free_bytes)
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
        laptop.keep_up(say)
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
    flower, file = settings.flower, settings.state_dir / "flower-password"
    password, made = (flower.password, False) if flower.password else load_or_make_password(file)
    address = laptop.start_flower(environment, flower, password)
    secret = "the configured password" if flower.password else f"password in {file}"
    if made:
        secret = f"password {password}, kept in {file}"
    say(f"Flower:     {address}  login {flower.user}, {secret}")


def load_or_make_password(path: Path) -> tuple[str, bool]:
    """The password kept in `path` (mode 0600), and whether it was made just now."""
    try:
        return path.read_text(encoding="ascii").strip(), False
    except FileNotFoundError:
        password = secrets.token_urlsafe(18)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(password + "\n")
        return password, True


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
