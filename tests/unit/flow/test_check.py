"""`crw flow check`: what a replay could not repeat, and what would be refused anyway."""

import ast
import re

import pytest

from scheduler.flow.check import check, refusals
from scheduler.flow.literals import Known, roles_named

HEAD = "import asyncio, datetime, json, os, random, re, time\nfrom pathlib import Path\n"


def findings(tmp_path, body, head=HEAD, known=None):
    text = head + "async def main(flow, args):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    (tmp_path / "flow.py").write_text(text)
    return check(tmp_path / "flow.py", known or Known(models=["m1"]))


CLEAN = """
design = await flow.agent("Plan: " + args["goal"], role="architect", schema=PLAN)
async def lane(node):
    build = await flow.agent(node["task"], role="executor", node=node["id"])
    head = await flow.crw.commit(node=node["id"], message=node["title"])
    checked = await flow.crw.verify(node=node["id"], head=head["commit"], command="make test")
    return re.compile("x").sub("", json.dumps(head["commit"]))
heads = await flow.parallel({n["id"]: lane(n) for n in design.output["nodes"]})
await flow.sleep(3)
return await flow.crw.integrate(heads=heads)
"""
PLAN = (
    'PLAN = {"type": "object", "additionalProperties": False, "required": ["nodes"], '
    '"properties": {"nodes": {"type": "array", "items": {"type": "string"}}}}\n'
)


def test_a_good_script_has_no_findings(tmp_path):
    assert findings(tmp_path, CLEAN.strip(), HEAD + PLAN) == []


@pytest.mark.req("RULE47", "RULE13")
@pytest.mark.parametrize(
    ("line", "kind", "mend"),
    [
        ("x = time.time()", "nondeterminism", "flow.clock"),
        ("x = datetime.datetime.now()", "nondeterminism", "flow.clock"),
        ("time.sleep(1)", "nondeterminism", "flow.sleep"),
        ("await asyncio.sleep(1)", "nondeterminism", "flow.sleep"),
        ("x = random.choice([1])", "nondeterminism", "args"),
        ("x = os.environ['HOME']", "nondeterminism", "args"),
        ("x = await asyncio.gather()", "nondeterminism", "flow.parallel"),
        ("import threading; threading.Thread()", "nondeterminism", "flow.parallel"),
        ("import socket; socket.socket()", "effect", "agent"),
        ("import subprocess; subprocess.run(['ls'])", "effect", "verify"),
        ("x = open('f').read()", "effect", "flow.file"),
        ("x = Path('f').read_text()", "effect", "flow.file"),
        ("print('x')", "effect", "flow.log"),
    ],
)
def test_what_another_process_would_see_differently_is_named_with_its_mend(tmp_path, line, kind, mend):
    found = findings(tmp_path, line)
    assert [(finding.kind, finding.line) for finding in found] == [(kind, 4)]
    assert mend in found[0].sentence and str(found[0]).startswith("flow.py:4: ")
    assert refusals(found) == found and refusals(found, trust_effects=True) == []


def test_from_imports_and_aliases_are_seen_through(tmp_path):
    head = "from time import time as now\nfrom datetime import datetime\nimport random as r\n"
    found = findings(tmp_path, "x = [now(), datetime.utcnow(), r.random()]", head)
    assert len(found) == 3


def test_a_name_of_the_scripts_own_is_not_taken_for_a_builtin(tmp_path):
    assert findings(tmp_path, "id = args['id']\nopen = args['open']\nreturn [id, open]") == []


def test_a_call_at_the_top_level_is_named(tmp_path):
    found = findings(tmp_path, "return 1", HEAD + "def setup(): pass\nsetup()\n")
    assert [finding.kind for finding in found] == ["effect"] and "top level" in found[0].sentence


@pytest.mark.req("T49")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("await flow.agent('x', role='archtect')", "no role 'archtect'"),
        ("await flow.agent('x', role=['architect'])", r"no role \['architect'\]"),
        ("await flow.agent('x')", "needs role="),
        ("await flow.agent('x', role='executor')", "give it node="),
        ("await flow.agent('x', role='qa', effort='huge')", "no effort 'huge'"),
        ("await flow.agent('x', role='qa', model='m2')", "no model 'm2'"),
        ("await flow.agent('x', role='executor', node='a/b')", "node id"),
        ("await flow.agent('x', role='qa', schema={'type': 'object'})", r"\$ needs"),
        ("await flow.agent('x', role='qa', schema=LOOSE)", r"\$ needs"),
        ("await flow.crw.deploy()", r"no op flow\.crw\.deploy"),
        ("await flow.crw.commit(node='a')", "needs message="),
        ("await flow.crw.verify(head='main', command='x')", "head is a full commit"),
        ("await flow.crw.verify(hed='a', command='x', head=x)", "does not take hed"),
        ("await flow.crw.commit('a', message='m', node='a')", "takes its arguments by name"),
        ("await flow.crw.classify()", "needs result="),
        ("await flow.crw.classify('held')", "result is the result of a call"),
        ("await flow.crw.classify(x, result=x)", "takes its arguments by name"),
        ("await flow.crw.tier_step(node='a', history=['held'])", "history is a list of results"),
        ("await flow.crw.tier_step(node='a', history=h, tiers=['executor', 'boss'])", "no role 'boss'"),
        ("await flow.crw.tier_step(node='a', history=h, tiers='executor')", "tiers is a list of different roles"),
        ("await flow.crw.review(head='main', criteria=c, reviewer=r, verdict=v)", "head is a full commit"),
        ("await flow.crw.review(head=h, criteria=c, reviewer=r, verdict='fine')", "verdict is one of verified"),
        ("await flow.crw.review(head=h, criteria=c, reviewer=r)", "needs verdict="),
        ("import numpy", "only the standard library"),
        ("flow.file('data.txt')", "does not ship with the script"),
    ],
)
def test_wrong_literals_are_errors_that_no_trust_lifts(tmp_path, line, sentence):

    found = findings(tmp_path, line, HEAD + "LOOSE = {'type': 'object'}\n")
    assert found and re.search(sentence, found[0].sentence)
    assert refusals(found, trust_effects=True) == found


def test_an_argument_that_may_stand_without_its_name_is_no_finding(tmp_path):
    line = "await flow.crw.classify(await flow.agent('x', role='qa'))\n"
    line += "await flow.crw.tier_step(node='a', history=[], tiers=['executor', 'executor-t1'])"
    assert findings(tmp_path, line) == []


def test_the_tiers_of_a_script_are_roles_that_need_a_model():
    text = "TIERS = ['executor', 'mine']\nasync def main(flow, args):\n    flow.crw.tier_step(tiers=TIERS)\n"
    assert roles_named(ast.parse(text)) == {"executor", "mine"}


def test_what_is_no_literal_is_left_to_the_scripts_line(tmp_path):
    line = "await flow.agent('x', role=args['role'], schema=args['schema'], **args)\nawait flow.crw.commit(**args)"
    assert findings(tmp_path, line) == []
