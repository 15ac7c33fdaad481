"""`crw flower`: Flower over the farm's tasks."""

from __future__ import annotations

import click

from deploy.flower import run_flower
from shared.base.log import configure_logging
from shared.base.settings import load_settings


@click.command("flower")
@click.option("--address", metavar="ADDRESS", help="Address to listen on; default: setting flower.address.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; default: setting flower.port.")
def command(address: str | None, port: int | None) -> None:
    """Serve Flower until SIGTERM or Ctrl-C: read-only, behind the login of the settings.

    Every call is a task named by its role or op; its run, node, role and label
    can be searched. The journal knows more: crw flow show RUN.

    \b
    CRW_FLOWER__PASSWORD=... crw flower
    crw flower --address 0.0.0.0 --port 8080
    """
    settings = load_settings()
    given = {"address": address, "port": port}
    flower = settings.flower.model_copy(update={name: value for name, value in given.items() if value is not None})
    configure_logging("flower", settings.log_level)
    run_flower(settings.model_copy(update={"flower": flower}))
