"""An agent call on the fake host: its rows, its result, and what each way to fail ends in."""

import threading
from pathlib import Path

import pytest

from shared.hub.refs import pending_ref
from shared.journal import read
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, SCHEMA, prompt
from tests.repositories import git
from tests.waiting import wait_until
from workers.worktrees.history import read_history

WRITES = {"out": [{"exec": "printf hello > made.txt"}]}
HANG = {"hang": True}


@pytest.mark.req("J03", "A01", "A02", "A03", "A04", "A06", "A08", "A09", "A10", "A21", "W04", "K01", "K14", "RULE9")
def test_an_executor_call_leaves_its_answer_and_its_tree_on_the_hub(one):
    call = one.open(prompt(WRITES, DONE))
    ended = one.work(call)
    assert ended is not None
    assert (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    intents = ["prepared", "placed", "thread_requested", "thread_started", "turn_requested", "turn_started"]
    assert [word for word in one.words(call) if word in intents] == intents
    assert one.words(call)[-3:] == ["turn_ended", "push_requested", "completed"]
    pending = one.rows(call)[-1].pending_tree
    assert git(one.hub, "show", f"{pending_ref(one.run_id, call.call_id)}:made.txt") == "hello"
    assert git(one.hub, "rev-parse", pending_ref(one.run_id, call.call_id) + "^{tree}") == pending
    started = one.fake.requests("thread/start")[0]["params"]
    assert started["sandbox"] == "workspace-write" and started["approvalPolicy"] == "never"
    assert started["ephemeral"] is False and started["model"] == "gpt-test"
    assert started["config"]["model_reasoning_effort"] == "low" and "developerInstructions" in started
    assert started["threadSource"] == f"crw:{one.run_id}/{call.call_id}/1"
    asked = [line["method"] for line in one.fake.requests() if "method" in line]
    assert asked.index("thread/start") < asked.index("thread/read") < asked.index("turn/start")
    turn = one.fake.requests("turn/start")[0]["params"]
    assert turn["outputSchema"]["properties"] == SCHEMA["properties"]
    assert turn["clientUserMessageId"] == f"{call.call_id}/t1"
    assert turn["input"][0]["text"].startswith(f"crw-flow-op: {call.call_id}/t1\n")
    assert (ended.meta.turns, ended.meta.repair, ended.meta.host) == (1, False, "h1")


def test_a_call_whose_commit_is_on_a_hub_that_is_away_begins_when_it_is_back(one, tmp_path, monkeypatch):
    away = one.hub.rename(tmp_path / "away")
    told, mirror = one.worker.should_stop, one.worker.mirrors.path_of(str(one.hub))

    def should_stop(claim):
        if away.exists() and mirror.is_dir():
            away.rename(one.hub)
        return told(claim)

    monkeypatch.setattr(one.worker, "should_stop", should_stop)
    ended = one.run(prompt(WRITES, DONE))
    assert ended.status is Status.COMPLETED and not away.exists()


@pytest.mark.req("W15", "A05", "RULE12")
def test_a_continuation_goes_on_in_the_same_thread_and_directory(one):
    first = one.open(prompt(WRITES, DONE))
    begun = one.work(first)
    context = {"kind": "continue", "call": first.call_id, "thread": begun.meta.thread_id, "host": "h1"}
    again = prompt({"out": [{"exec": "cat made.txt >> made.txt.copy"}]}, DONE)
    second = one.open(again, context={**context, "through_turn": begun.meta.turn_id})
    ended = one.work(second)
    assert ended.status is Status.COMPLETED and ended.meta.thread_id == begun.meta.thread_id
    paths = [row.worktree_path for call in (first, second) for row in one.rows(call) if row.event == "placed"]
    assert paths[0] == paths[1] and (Path(paths[0]) / "made.txt.copy").read_text() == "hello"
    assert one.sent("thread/start") == 1
    pairs = {(turn["params"]["model"], turn["params"]["effort"]) for turn in one.fake.requests("turn/start")}
    assert pairs == {("gpt-test", "low")}


@pytest.mark.req("W15", "K21")
def test_a_conversation_goes_on_after_its_server_was_started_again(one):
    first = one.open(prompt(WRITES, DONE))
    begun = one.work(first)
    one.worker.appserver.connection()._server.stop()
    context = {"kind": "continue", "call": first.call_id, "thread": begun.meta.thread_id, "host": "h1"}
    ended = one.run(prompt(DONE), context={**context, "through_turn": begun.meta.turn_id})
    assert ended.status is Status.COMPLETED
    assert one.fake.requests("thread/resume")[-1]["params"]["sandbox"] == "workspace-write"


@pytest.mark.req("A23", "DEF4")
def test_an_answer_of_the_wrong_form_gets_one_repair_turn(one):
    wrong = {"out": [{"msg": "no json", "phase": "final_answer"}]}
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [wrong, DONE]}})
    ended = one.run(prompt(wrong))
    assert (ended.status, ended.reason) == (Status.NULL_MODEL, "schema_invalid")
    assert ended.meta.repair and one.sent("turn/start") == 2
    mended = one.run("[[script:late]]", node="n2")
    assert (mended.status, mended.meta.turns, mended.meta.repair) == (Status.COMPLETED, 2, True)


@pytest.mark.req("DEF4", "S10", "A11", "K23")
def test_a_turn_without_an_answer_is_null_model(one):
    ended = one.run(prompt({"out": [{"msg": "thinking aloud", "phase": "commentary"}]}))
    assert (ended.status, ended.reason, ended.output) == (Status.NULL_MODEL, "no_answer", None)
    assert one.sent("thread/turns/list") >= 1, "what no event brought was looked for in the server's own record"


@pytest.mark.req("K13")
def test_a_call_without_a_schema_answers_with_text(one):
    ended = one.run(prompt({"out": [{"msg": '{"answer": "fine"}', "phase": "final_answer"}]}), schema=None)
    assert (ended.status, ended.output) == (Status.COMPLETED, "fine")


@pytest.mark.req("W16", "A03", "T61")
def test_a_reviewer_reads_a_checkout_of_its_own_and_leaves_no_tree(one):
    one.run(prompt(WRITES, DONE))
    history = read_history(read.load_node(one.database, one.run_id, "n1"))
    call = one.open(prompt(DONE), role="reviewer")
    assert one.work(call).status is Status.COMPLETED
    assert read_history(read.load_node(one.database, one.run_id, "n1")) == history, "the executor's work is as it was"
    assert one.fake.requests("thread/start")[-1]["params"]["sandbox"] == "read-only"
    assert "/calls/" in one.fake.requests("thread/start")[-1]["params"]["cwd"]
    assert one.rows(call)[-1].pending_tree is None


@pytest.mark.req("A04", "K22", "T49")
def test_a_pair_that_the_provider_does_not_have_is_refused_before_any_thread(one):
    ended = one.run(prompt(DONE), pair=["gpt-other", "low"])
    assert (ended.status, ended.reason) == (Status.REFUSED, "pair_refused")
    assert one.sent("thread/start") == 0


@pytest.mark.req("W03")
def test_the_next_executor_of_a_node_starts_fresh_and_is_told_where_the_earlier_work_is(one):
    one.run(prompt(WRITES, {"out": [{"msg": "x", "phase": "commentary"}]}))
    call = one.open(prompt(DONE))
    one.work(call)
    placed = [row for row in one.rows(call) if row.event == "placed"]
    assert placed[0].allocation == 2 and not (Path(placed[0].worktree_path) / "made.txt").exists()
    retired = f"refs/crw/flow/{one.run_id}/retired/n1/a1"
    assert retired in one.fake.requests("turn/start")[-1]["params"]["input"][0]["text"]
    assert git(one.hub, "show", f"{retired}:made.txt") == "hello"


@pytest.mark.req("DEF3")
def test_a_spent_quota_holds_the_call_and_keeps_what_was_written(one):
    failed = {"failed": {"code": "insufficient_quota", "message": "spent"}}
    call = one.open(prompt(WRITES, failed))
    ended = one.work(call)
    assert (ended.status, ended.reason, ended.output) == (Status.HELD, "quota", None)
    assert git(one.hub, "show", f"{one.rows(call)[-1].held_tree}:made.txt") == "hello"


@pytest.mark.req("K24")
def test_an_overloaded_server_is_asked_again(one):
    one.fake.write_faults({"method": "thread/start", "do": "overload", "times": 2})
    assert one.run(prompt(DONE)).status is Status.COMPLETED


@pytest.mark.parametrize("reason", ["cancel", "deadline"])
def test_a_call_that_should_end_is_interrupted_and_held(one, reason):
    call = one.open(prompt(HANG))
    working = threading.Thread(target=one.work, args=(call,))
    working.start()
    wait_until(lambda: "turn_started" in one.words(call), 20, "the turn to start")
    (hand,) = one.worker.hands.all()
    hand.tell(reason)
    working.join(30)
    ended = one.ended(call)
    assert (ended.status, ended.reason) == (Status.HELD, reason)
    words = one.words(call)
    assert words.index("interrupt_requested") < words.index("interrupted")
    assert one.sent("turn/interrupt") >= 1


@pytest.mark.req("RULE15", "K20")
def test_a_command_that_a_turn_left_running_is_ended_before_the_snapshot(one):
    left = {"out": [{"exec": "while sleep 0.05; do date +%N > moving.txt; done &"}]}
    call = one.open(prompt(left, DONE))
    ended = one.work(call)
    assert ended.status is Status.COMPLETED
    tree = one.rows(call)[-1].pending_tree
    path = Path(one.rows(call)[-1].worktree_path or "")
    again = git(path, "hash-object", "moving.txt") if (path / "moving.txt").exists() else None
    kept = git(one.hub, "ls-tree", tree, "moving.txt")
    assert again is None or again in kept


def test_the_cap_on_turns_holds_the_call_before_anything_is_sent(make_worker):
    one = make_worker(max_turns=1)
    assert one.run(prompt(DONE)).status is Status.COMPLETED
    ended = one.run(prompt(DONE), node="n2")
    assert (ended.status, ended.reason) == (Status.HELD, "budget")
    assert one.sent("turn/start") == 1


@pytest.mark.req("DEF3")
def test_a_worktree_that_cannot_be_made_holds_the_call(make_worker):
    one = make_worker(setup="echo broken; exit 3")
    ended = one.run(prompt(DONE))
    assert (ended.status, ended.reason) == (Status.HELD, "worktree_failed")
    assert "broken" in ended.facts["error"]
    assert one.sent("thread/start") == 0
