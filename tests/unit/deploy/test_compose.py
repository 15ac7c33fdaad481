"""The compose file: parsed with PyYAML, checked against the parts of the compose specification that it uses.

Checked are the shape and type of every member (a misspelt or misplaced one is refused), the merges of YAML, and
what the specification asks beyond shapes: named volumes and dependencies exist, a dependency on health has a
healthcheck, durations are durations. Not checked: what only an engine knows, as whether an image can be had.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from sqlalchemy.engine import make_url

from shared.base.settings import Settings

COMPOSE = Path(__file__).parents[3] / "deploy" / "compose"

_TEXT = {"type": "string"}
_DURATION = {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"}
_COMMAND = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_MAP = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# The specification's own words for the members used here.
_SERVICE = _object(
    ["image"],
    image=_TEXT,
    build=_object(["context"], context=_TEXT, dockerfile=_TEXT),
    init={"type": "boolean"},
    restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
    env_file={"type": "array", "items": _TEXT, "uniqueItems": True},
    environment=_MAP,
    volumes={"type": "array", "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"}, "uniqueItems": True},
    command=_COMMAND,
    healthcheck=_object(
        ["test"],
        test={"type": "array", "prefixItems": [{"enum": ["CMD", "CMD-SHELL", "NONE"]}], "minItems": 2},
        interval=_DURATION,
        timeout=_DURATION,
        retries={"type": "integer", "minimum": 1},
        start_period=_DURATION,
    ),
    depends_on={
        "type": "object",
        "additionalProperties": _object(
            ["condition"],
            condition={"enum": ["service_started", "service_healthy", "service_completed_successfully"]},
        ),
    },
    logging=_object(["driver"], driver=_TEXT, options=_MAP),
    ports={"type": "array", "items": {"type": "string", "pattern": r"^[\d.]+:\d+:\d+$"}},
    security_opt={"type": "array", "items": _TEXT, "uniqueItems": True},
    shm_size={"type": "string", "pattern": r"^\d+(b|k|m|g|kb|mb|gb)$"},
    stop_grace_period=_DURATION,
)
_FILE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "patternProperties": {"^[a-zA-Z0-9._-]+$": _SERVICE}},
        "volumes": {"type": "object", "additionalProperties": {"type": ["object", "null"]}},
    },
    "patternProperties": {"^x-": {}},
    "required": ["services"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def farm() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def _variables(name: str) -> dict[str, str]:
    lines = (COMPOSE / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_member_is_one_of_the_specification(farm: dict[str, Any]) -> None:
    jsonschema.validate(farm, _FILE, cls=jsonschema.Draft202012Validator)


def test_the_check_itself_refuses_a_misspelt_member(farm: dict[str, Any]) -> None:
    broken = {**farm, "services": {"redis": {**farm["services"]["redis"], "healtcheck": {}}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, _FILE, cls=jsonschema.Draft202012Validator)


def test_the_farm_is_complete_and_every_lasting_service_says_whether_it_is_well(farm: dict[str, Any]) -> None:
    services = farm["services"]
    assert set(services) == {"postgres", "redis", "upgrade", "scheduler", "worker", "flower"}
    assert [name for name, service in services.items() if "healthcheck" not in service] == ["upgrade"]
    assert services["postgres"]["image"] == "postgres:18"


def test_what_a_service_waits_for_is_there_and_can_become_so(farm: dict[str, Any]) -> None:
    services = farm["services"]
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in services
            assert how["condition"] != "service_healthy" or "healthcheck" in services[name]
            assert how["condition"] != "service_completed_successfully" or services[name]["restart"] == "no"


def test_volumes_are_declared_and_files_exist(farm: dict[str, Any]) -> None:
    for service in farm["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if not source.startswith("."):
                assert source in farm["volumes"]
            elif source != "./crw.toml":
                assert (COMPOSE / source).is_file()
        for file in service["env_file"]:
            assert (COMPOSE / f"{file}.example").is_file()
    assert (COMPOSE / farm["x-farm"]["build"]["context"] / farm["x-farm"]["build"]["dockerfile"]).is_file()


def test_secrets_stand_in_env_files_alone(farm: dict[str, Any]) -> None:
    secrets = {value for file in COMPOSE.glob("env/*.example") for value in _variables(f"env/{file.name}").values()}
    secrets = {value for value in secrets if "change-me" in value}
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    assert secrets and not any(secret in text for secret in secrets)
    for service in farm["services"].values():
        assert not any(re.search("PASSWORD|SECRET|URL", name) for name in service.get("environment", {}))


def test_the_examples_hold_settings_that_exist_and_urls_that_fit_the_services(farm: dict[str, Any]) -> None:
    application, owner = _variables("env/farm.env.example"), _variables("env/owner.env.example")
    postgres, redis = _variables("env/postgres.env.example"), _variables("env/redis.env.example")
    url = make_url(application["CRW_DATABASE_URL"])
    assert (url.host, url.database, url.password) == ("postgres", postgres["POSTGRES_DB"], postgres["CRW_APP_PASSWORD"])
    assert make_url(owner["CRW_ADMIN_DATABASE_URL"]).password == postgres["CRW_OWNER_PASSWORD"]
    assert redis["REDIS_PASSWORD"] in application["CRW_BROKER_URL"] and "@redis:" in application["CRW_BROKER_URL"]
    for variable in (*application, *owner, *_variables("env/flower.env.example")):
        assert variable.removeprefix("CRW_").split("__")[0].lower() in Settings.model_fields


def test_only_the_upgrade_knows_the_owner_and_only_flower_its_password(farm: dict[str, Any]) -> None:
    readers = {
        file: [name for name, service in farm["services"].items() if f"env/{file}" in service["env_file"]]
        for file in ("owner.env", "flower.env", "postgres.env", "redis.env")
    }
    assert readers == {
        "owner.env": ["upgrade"],
        "flower.env": ["flower"],
        "postgres.env": ["postgres"],
        "redis.env": ["redis"],
    }


@pytest.mark.req("RULE5", "RULE34")
def test_a_worker_service_is_one_host_with_time_to_hand_back_its_calls(farm: dict[str, Any]) -> None:
    worker = farm["services"]["worker"]
    assert worker["environment"]["CRW_HOST_NAME"] == "worker-1"
    assert "worker-1:/var/lib/crw" in worker["volumes"]
    assert worker["stop_grace_period"] == "1m" and Settings.model_fields["drain_seconds"].default < 50


def test_the_image_runs_as_a_user_on_pinned_dependencies() -> None:
    lines = (COMPOSE / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER crw" in lines
    assert any("--constraint constraints.txt '.[codex]'" in line for line in lines)
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert all((COMPOSE.parents[1] / name).exists() for name in copied)


def test_secrets_are_kept_out_of_the_repository_and_of_the_image() -> None:
    root = COMPOSE.parents[1]
    assert "deploy/compose/env/*.env" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    sent = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    # The last matching line wins: everything is left out, some folders are let in, this one is out again.
    assert "*" in sent and sent.index("deploy/compose") > sent.index("!deploy")
