"""What a thread is asked to be, and what of its echo is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workers.appserver import Thread, ThreadSettings, find_exposed, thread_source
from workers.appserver.threads import find_differences, plan_params

_WANTED = ThreadSettings("/srv/wt", "m", "high", "workspace-write", "do", thread_source("r1", "c1", 2))
_SANDBOX: dict[str, Any] = {
    "type": "workspaceWrite",
    "writableRoots": [],
    "networkAccess": False,
    "excludeTmpdirEnvVar": True,
    "excludeSlashTmp": True,
}
_ECHO = Thread("t", "m", "high", "/srv/wt", "crw:r1/c1/2", "idle", None, _SANDBOX, "never")


@pytest.mark.req("A02", "K21", "K28", "K57", "T22")
def test_every_setting_goes_out_each_time() -> None:
    params = plan_params(replace(_WANTED, auto_compact_token_limit=9), "do")
    assert (params["cwd"], params["model"], params["sandbox"]) == ("/srv/wt", "m", "workspace-write")
    assert (params["approvalPolicy"], params["developerInstructions"]) == ("never", "do")
    assert params["config"]["model_reasoning_effort"] == "high"
    assert params["config"]["model_auto_compact_token_limit"] == 9
    assert params["config"]["projects"] == {"/srv/wt": {"trust_level": "untrusted"}}


def test_an_echo_as_asked_has_no_differences() -> None:
    assert find_differences(_ECHO, _WANTED) == {}


@pytest.mark.req("T08", "K21", "K35")
@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model": "other"}, {"model"}),
        ({"effort": None}, {"effort"}),
        ({"cwd": "/srv"}, {"cwd"}),
        ({"approval_policy": "on-request"}, {"approval_policy"}),
        ({"sandbox": None}, {"sandbox", "exclude_slash_tmp", "exclude_tmpdir_env_var"}),
        ({"sandbox": {**_SANDBOX, "networkAccess": True}}, {"network"}),
        ({"sandbox": {**_SANDBOX, "writableRoots": ["/srv"]}}, {"writable_roots"}),
        ({"sandbox": {**_SANDBOX, "excludeSlashTmp": False}}, {"exclude_slash_tmp"}),
    ],
)
def test_each_setting_that_differs_is_named(changes: dict[str, Any], names: set[str]) -> None:
    assert set(find_differences(replace(_ECHO, **changes), _WANTED)) == names


@pytest.mark.req("K35")
def test_what_a_sandbox_reaches_is_found(tmp_path: Path) -> None:
    home, work = tmp_path / "codex-home", tmp_path / "flow" / "wt"
    assert find_exposed(_SANDBOX, str(work), [home]) == []
    assert find_exposed({"type": "readOnly"}, str(tmp_path), [home]) == []
    assert find_exposed({"type": "dangerFullAccess"}, str(work), [home]) == [home]
    assert find_exposed({**_SANDBOX, "writableRoots": [str(tmp_path)]}, str(work), [home]) == [home]
    assert find_exposed({**_SANDBOX, "writableRoots": [str(home / "x")]}, str(work), [home]) == [home]
    assert find_exposed(_SANDBOX, str(tmp_path), [home]) == [home]
    assert find_exposed({**_SANDBOX, "excludeSlashTmp": False}, str(work), [Path("/tmp/state")]) == [Path("/tmp/state")]
