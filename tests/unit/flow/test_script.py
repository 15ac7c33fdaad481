"""Runs in one process do not share modules, and import nothing that did not ship."""

import asyncio
import sys

import pytest

from scheduler.flow.script import Script
from shared.base.errors import FlowError


def sources(**texts):
    return {name.replace("_py", ".py").replace("__", "/"): text.encode() for name, text in texts.items()}


def run(main, args=None):
    return asyncio.run(main(None, args))


@pytest.mark.req("RULE13")
def test_two_runs_with_a_helper_of_the_same_name_get_their_own():
    flow = "import helpers\nasync def main(flow, args):\n    return helpers.WHO\n"
    one = Script("rone", "flow.py", sources(flow_py=flow, helpers_py="WHO = 'one'\n"))
    two = Script("rtwo", "flow.py", sources(flow_py=flow, helpers_py="WHO = 'two'\n"))
    mains = one.load(), two.load()
    assert [run(main) for main in mains] == ["one", "two"]
    one.unload()
    two.unload()
    assert not [name for name in sys.modules if name.startswith("crw_flow_")]


@pytest.mark.req("RULE13")
def test_a_run_loaded_again_starts_with_fresh_modules():
    text = "SEEN = []\nasync def main(flow, args):\n    SEEN.append(1)\n    return len(SEEN)\n"
    for _ in range(2):
        script = Script("rone", "flow.py", sources(flow_py=text))
        assert run(script.load()) == 1
        script.unload()


def test_every_form_of_import_finds_the_runs_own_modules():
    script = Script(
        "rimp",
        "flow.py",
        {
            "flow.py": b"import lib.deep as d\nimport lib.deep\nfrom lib import deep, other\nfrom lib.deep import X\n"
            b"async def main(flow, args):\n    import late\n"
            b"    return [d.X, lib.deep.X, deep.X, X, other.Y, late.Z]\n",
            "lib/__init__.py": b"",
            "lib/deep.py": b"from . import other\nfrom .other import Y\nX = Y\n",
            "lib/other.py": b"import json\nY = json.loads('7')\n",
            "late.py": b"from dataclasses import dataclass\n@dataclass\nclass A:\n    n: 'int' = 3\nZ = A().n\n",
        },
    )
    assert run(script.load()) == [7, 7, 7, 7, 7, 3]
    script.unload()


@pytest.mark.req("RULE13")
@pytest.mark.parametrize("module", ["rich", "scheduler.flow", "tests", "nowhere"])
def test_what_did_not_ship_is_not_importable(module):
    script = Script("rnot", "flow.py", sources(flow_py=f"import {module}\nasync def main(flow, args): pass\n"))
    with pytest.raises(ImportError, match="not shipped"):
        script.load()
    script.unload()


def test_data_files_are_read_by_name_and_others_are_refused():
    script = Script("rdat", "flow.py", {"flow.py": b"async def main(flow, args): pass\n", "a.txt": b"\xff"})
    assert script.file("a.txt") == b"\xff"
    with pytest.raises(FlowError, match=r"does not ship.*files"):
        script.file("/etc/passwd")
    with pytest.raises(FlowError, match="not among"):
        script.main_of("other.py")


def test_a_traceback_is_cut_to_the_scripts_own_frames():
    script = Script(
        "rtrc",
        "flow.py",
        sources(
            flow_py="import json\nimport helpers\nasync def main(flow, args):\n    helpers.read(args)\n",
            helpers_py="import json\ndef read(text):\n    return json.loads(text)\n",
        ),
    )
    try:
        run(script.load(), "{")
    except ValueError as error:
        frames = script.frames(error.__traceback__)
    assert frames == [
        ("flow.py", 4, "main", "helpers.read(args)"),
        ("helpers.py", 3, "read", "return json.loads(text)"),
    ]
    script.unload()
