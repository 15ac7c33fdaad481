"""From what a user asks for to a run's record: everything is checked here, nothing is written.

A batch goes through one `Submission`, which reads each script and asks each
repository once, however many runs name them.
Source: design of the farm, "The command line"; decisions on scripts.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.flow.check import check_sources, refusals
from scheduler.flow.literals import Known, roles_named
from scheduler.flow.sources import Sources, collect, parse
from scheduler.wanted import BACKENDS, Wanted
from shared.base.canonical import canonical_bytes
from shared.base.errors import UsageError
from shared.base.settings import RoleSettings, Settings, config_file
from shared.hub.hub import Hub, check_hub
from shared.journal.submit import NewRun
from shared.model.roles import BUILT_IN_ROLES, EFFORTS, Role, default_prompt, default_sandbox
from shared.model.spec import RunSpec

# What a role without `effort` asks for; unlike a model it means the same at every provider.
DEFAULT_EFFORT = "medium"
_MAX_ARGS_BYTES = 8 << 20
_MAX_KEY_CHARACTERS = 200
# What the journal's counter of turns holds.
_MOST_TURNS = 2**31 - 1


def new_key() -> str:
    """A key for a run that was given none: a submit whose answer was lost is repeated under it and finds its run."""
    return f"auto-{secrets.token_hex(8)}"


class Submission:
    """Checks what is asked for against this machine's settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._roles = snapshot_roles(settings)
        self._scripts: dict[tuple[str, bool], Sources] = {}
        self._hubs: dict[tuple[str, str | None, str | None], Hub] = {}

    def check(self, wanted: Wanted) -> NewRun:
        """The run's record.

        Raises:
            UsageError: one sentence about the first thing that cannot be used.
        """
        if wanted.backend not in BACKENDS:
            raise UsageError(f"there is no backend {wanted.backend!r}; use {', '.join(BACKENDS)}")
        if wanted.max_turns is not None and not 0 < wanted.max_turns <= _MOST_TURNS:
            raise UsageError(f"max_turns is a number from 1 to {_MOST_TURNS}; leave it out for no cap")
        if wanted.key is not None:
            check_key(wanted.key)
        _check_names(wanted)
        _check_args(wanted.args)
        sources = self._script(wanted)
        hub = self._hub(wanted)
        settings = self._settings
        spec = RunSpec(
            workflow=sources.script,
            script=sources.script,
            sources=sources.digests(),
            args=wanted.args,
            hub=hub.url,
            base=hub.base_commit,
            target=wanted.target or "",
            roles=self._roles,
            label=_host_label(wanted, hub),
            setup=settings.setup,
            setup_timeout_seconds=settings.setup_timeout_seconds,
            verify_timeout_seconds=settings.verify_timeout_seconds,
            call_deadline_seconds=settings.call_deadline_seconds,
            author_name=settings.git.author_name,
            author_email=settings.git.author_email,
            backend=wanted.backend,
            max_turns=wanted.max_turns,
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            # The catalogue a script's own model= is held against, wherever the script runs.
            extra={"models": settings.codex.models} if settings.codex.models else {},
        )
        return NewRun(spec, sources.files, wanted.key or new_key())

    def _script(self, wanted: Wanted) -> Sources:
        name = (str(wanted.script), wanted.trust_effects)
        if name not in self._scripts:
            sources = collect(wanted.script)
            check_script(sources, self._settings, self._roles, trust_effects=wanted.trust_effects)
            self._scripts[name] = sources
        return self._scripts[name]

    def _hub(self, wanted: Wanted) -> Hub:
        name = (wanted.repo, wanted.base, wanted.target)
        if name not in self._hubs:
            self._hubs[name] = check_hub(*name)
        return self._hubs[name]


def known_names(settings: Settings) -> Known:
    """What a script may name under these settings."""
    return Known(
        (*BUILT_IN_ROLES, *(name for name in settings.roles if name not in BUILT_IN_ROLES)), settings.codex.models
    )


def check_script(sources: Sources, settings: Settings, roles: Mapping[str, Role], *, trust_effects: bool) -> None:
    """Refuse a script that a run could not replay, or that names what these settings do not have.

    Raises:
        UsageError: with the first finding.
    """
    refused = refusals(check_sources(sources, known_names(settings)), trust_effects)
    if refused:
        more = f" ({len(refused) - 1} more: 'crw flow check' lists them)" if len(refused) > 1 else ""
        raise UsageError(f"{refused[0]}{more}")
    missing = roles_without_model(sources, roles)
    if missing:
        raise UsageError(f"the script asks for role {missing[0]!r}, which has no model; {model_mend(missing[0])}")


def roles_without_model(sources: Sources, roles: Mapping[str, Role]) -> list[str]:
    """The roles that stand in the script as literals and have no model."""
    named: set[str] = set()
    for name, raw in sources.files.items():
        if name.endswith(".py"):
            named |= roles_named(parse(name, raw))
    return sorted(named - roles.keys())


def model_mend(role: str) -> str:
    """Which line gives a role its model, and where to write it."""
    return f'write [roles.{role}] and below it model = "<name of a model>" in {config_file() or "crw.toml"}'


def check_key(key: str) -> None:
    """Refuse a key that no run can have.

    Raises:
        UsageError: one sentence with the mend.
    """
    # It is printed as one word of a line, and the journal keeps neither a NUL nor half a character.
    if not 0 < len(key) <= _MAX_KEY_CHARACTERS:
        raise UsageError(f"a key has 1 to {_MAX_KEY_CHARACTERS} characters; shorten it")
    if not key.isprintable():
        raise UsageError(f"the key {key!r} has characters that cannot be shown; use printable ones")


def _check_names(wanted: Wanted) -> None:
    """Refuse names that are no text: a command line's bytes that are not UTF-8 arrive as lone surrogates."""
    names = {
        "script": str(wanted.script),
        "repo": wanted.repo,
        "base": wanted.base or "",
        "target": wanted.target or "",
        "label": wanted.label or "",
    }
    for what, name in names.items():
        if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
            raise UsageError(f"{what} {name!r} is no UTF-8 text; give it a name that is")
    for what, given in (("base", wanted.base), ("target", wanted.target)):
        if given == "":
            raise UsageError(f"{what} is empty; name one, or leave --{what} out for its default")
    if not wanted.repo:
        raise UsageError("repo is empty; give the path or URL of a git repository with --repo")


def _check_args(args: Any) -> None:
    try:
        size = len(canonical_bytes(args))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the arguments are no JSON value: {error}") from None
    if size > _MAX_ARGS_BYTES:
        raise UsageError(
            f"the arguments are larger than {_MAX_ARGS_BYTES >> 20} MiB; put large inputs in the repository"
        )


def _host_label(wanted: Wanted, hub: Hub) -> str | None:
    """A path is on one machine, so it names that machine's label; a URL takes what was asked for."""
    if not hub.is_path:
        return wanted.label
    if wanted.label is not None and wanted.label != hub.machine:
        raise UsageError(
            f"a repository given as a path binds the run to this machine, so label {wanted.label!r} cannot hold; "
            "give the repository's URL"
        )
    return hub.machine


def snapshot_roles(settings: Settings) -> dict[str, Role]:
    """Every role that has a model, as a run keeps it.

    Raises:
        UsageError: an effort or model that is not usable, or a prompt file that cannot be read.
    """
    return {name: _role(name, role, settings.codex.models) for name, role in settings.roles.items() if role.model}


def _role(name: str, role: RoleSettings, models: list[str]) -> Role:
    effort = role.effort or DEFAULT_EFFORT
    if effort not in EFFORTS:
        raise UsageError(f"setting roles.{name}.effort is {effort!r}; use one of {', '.join(EFFORTS)}")
    if models and role.model not in models:
        raise UsageError(f"setting roles.{name}.model is {role.model!r}; codex.models has {', '.join(models)}")
    prompt = default_prompt(name)
    if role.prompt is not None:
        try:
            prompt = Path(role.prompt).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"setting roles.{name}.prompt names {role.prompt}, which cannot be read: {error}"
            ) from None
    return Role(
        name=name,
        model=str(role.model),
        effort=effort,
        sandbox=role.sandbox or default_sandbox(name),
        prompt=prompt,
        auto_compact_token_limit=role.auto_compact_token_limit,
        network=role.network,
    )
