"""Settings that cannot be used are named, with the file they stand in and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.base.errors import SettingsError
from shared.base.settings import load_settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lease_second = 3", ("there is no setting lease_second", "did you mean lease_seconds?")),
        ("[codex]\nbinary = 'x'", ("there is no setting codex.binary", "did you mean codex.bin?")),
        ("[roles.architect]\nmodle = 'x'", ("roles.architect.modle", "did you mean roles.architect.model?")),
        ("zzzzzz = 1", ("there is no setting zzzzzz", "deploy/crw.toml.example")),
    ],
)
def test_an_unknown_key_is_named_with_its_file_and_the_nearest_known_one(
    text: str, words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "crw.toml"
    file.write_text(text)
    monkeypatch.setenv("CRW_CONFIG", str(file))
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert all(word in str(refused.value) for word in (*words, str(file)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("roles = 1", "setting roles: "),
        ("state_dir = 5", "setting state_dir: "),
        ('state_dir = "~nobody-of-that-name/crw"', "state_dir ~nobody-of-that-name/crw"),
        (r'state_dir = "a\u0000b"', "state_dir 'a\\x00b'"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_its_setting_s_name(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "crw.toml"
    file.write_text(text)
    monkeypatch.setenv("CRW_CONFIG", str(file))
    monkeypatch.delenv("CRW_STATE_DIR", raising=False)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert words in str(refused.value)


@pytest.mark.parametrize("variable", ["CRW_LABELS", "CRW_ROLES", "CRW_CODEX", "CRW_CODEX__CONFIG"])
def test_a_list_that_a_variable_does_not_write_as_json_is_refused_without_its_value(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "gpu")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert "is written as JSON" in str(refused.value)
    assert '"gpu"' not in str(refused.value).partition("for instance")[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (f"{name}_seconds", value)
            for name in ("LEASE", "DRAIN", "GIT__TIMEOUT")
            for value in ("inf", "nan", "1e400", "1e30", "0")
        ),
        ("RETENTION_DAYS", "inf"),
        ("RETENTION_DAYS", "1e30"),
        ("MAX_RUNS", str(1 << 31)),
        ("CALLS_AT_ONCE", str(10**30)),
        ("WORKER_CRASH_LIMIT", str(1 << 31)),
        ("MIN_FREE_BYTES", str(1 << 63)),
        *(("HOST_NAME", value) for value in ("", " ", "a\nb", "\x1b[2J", "n" * 256)),
        *(("GIT__AUTHOR_NAME", value) for value in ("", " ", ".", "a\nb", "a <b>")),
        ("GIT__AUTHOR_EMAIL", ""),
        ("STATE_DIR", ""),
        ("CODEX__HOME", ""),
    ],
)
def test_a_value_that_nothing_could_work_with_is_refused_by_its_setting_s_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CRW_{name.upper()}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert f"setting {name.lower().replace('__', '.')}: " in str(refused.value)
    assert "Value error" not in str(refused.value)
