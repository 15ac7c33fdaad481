"""What ships with a script is found without running it."""

import pytest

from scheduler.flow.sources import collect
from shared.base.errors import UsageError

MAIN = "async def main(flow, args):\n    return 1\n"


@pytest.mark.req("DEF17", "RULE13")
def test_modules_from_the_own_folder_ship_and_others_do_not(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("")
    (tmp_path / "lib" / "deep.py").write_text("from . import more\n")
    (tmp_path / "lib" / "more.py").write_text("")
    (tmp_path / "lib" / "unused.py").write_text("")
    (tmp_path / "helpers.py").write_text("import json\n")
    (tmp_path / "data.txt").write_text("x")
    (tmp_path / "sub.py").write_text(MAIN)
    (tmp_path / "flow.py").write_text(
        "import helpers\nfrom lib.deep import thing\nimport re\nfiles = ['data.txt']\n"
        "async def main(flow, args):\n    return await flow.workflow('sub.py', 1)\n"
    )
    sources = collect(tmp_path / "flow.py")
    assert sorted(sources.files) == [
        "data.txt", "flow.py", "helpers.py", "lib/__init__.py", "lib/deep.py", "lib/more.py", "sub.py",
    ]  # fmt: skip
    assert sources.script == "flow.py" and len(sources.digests()) == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def main(flow, args:\n", "line 1 does not parse"),
        ("x = 1\n", "has no main"),
        ("def main(flow, args): pass\n", "must be async"),
        ("async def main(flow): pass\n", "takes two arguments"),
        ("async def main(flow, args, *, more): pass\n", "takes two arguments"),
        ("async def main(flow, args):\n    for item in args:\n        yield item\n", "without a yield"),
        ("async def main(flow, args):\n    return " + "-" * 200_000 + "1\n", "nested too deeply"),
        ("async def main(flow, args):\n    return " + "+".join(["1"] * 30_000) + "\n", "nested too deeply"),
        ("files = ['a\\0b']\n" + MAIN, "cannot be read: embedded null byte"),
        ("files = ['\\ud800']\n" + MAIN, "cannot be read: .*surrogates not allowed"),
        (f"files = ['{'a' * 300}']\n" + MAIN, "cannot be read: .*too long"),
        ("files = ['gone.txt']\n" + MAIN, "gone.txt, which is no file"),
        ("files = ['../x']\n" + MAIN, "leaves the script's folder"),
        ("files = [n for n in 'ab']\n" + MAIN, "written out"),
    ],
)
def test_a_script_that_cannot_run_is_refused_in_one_sentence(tmp_path, text, sentence):
    (tmp_path / "flow.py").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        collect(tmp_path / "flow.py")


def test_what_an_inner_function_yields_is_no_generator_of_main(tmp_path):
    (tmp_path / "flow.py").write_text(
        "async def main(flow, args):\n    def numbers():\n        yield 1\n    return list(numbers())\n"
    )
    assert sorted(collect(tmp_path / "flow.py").files) == ["flow.py"]


def test_a_script_that_is_not_there_or_no_python_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no script"):
        collect(tmp_path / "flow.py")
    (tmp_path / "flow.txt").write_text(MAIN)
    with pytest.raises(UsageError, match=r"end in \.py"):
        collect(tmp_path / "flow.txt")


def test_a_link_out_of_the_folder_does_not_ship(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("s")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "flow.py").write_text("files = ['link.txt']\n" + MAIN)
    with pytest.raises(UsageError, match="leaves the script's folder"):
        collect(inside / "flow.py")
