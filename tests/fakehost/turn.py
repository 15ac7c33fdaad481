"""One turn of the fake: the script's steps, told in the order the real server tells them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deploy.demo.model_script import choose_script, fill_in, message_of, script_steps, step_items
from shared.base.command import die_with_parent
from tests.fakehost.failures import Failed, http_failure, stream_failure
from tests.fakehost.store import FakeThread, Turn, new_id

if TYPE_CHECKING:
    from tests.fakehost.host import Host

# The real server tells `turn/started` some 25 ms after its reply; until then an interrupt is refused.
_BEGIN_SECONDS = 0.03
_DELIVERY_SECONDS = 0.005


class RunningTurn:
    """A turn while it runs; `input` grows when a second send steers it."""

    def __init__(self, host: Host, thread: FakeThread, params: Mapping[str, Any]) -> None:
        self.host = host
        self.thread = thread
        self.params = params
        self.schema = params.get("outputSchema")
        self.begun = False
        self.interrupted = False
        # An interrupt that named no turn came before the begin, and strikes right after it.
        self.stopped_early = False
        self.steered: list[Mapping[str, Any]] = []
        self.turn: Turn = {
            "id": new_id(),
            "items": [],
            "itemsView": "full",
            "status": "inProgress",
            "error": None,
            "startedAt": None,
            "completedAt": None,
            "durationMs": None,
        }
        self.turn["rootTurnId"] = self.turn["id"]
        self.task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The turn's id."""
        return str(self.turn["id"])

    def summary(self) -> Turn:
        """The turn as replies and notifications show it: its last answer at most."""
        messages = [i for i in self.turn["items"] if i["type"] == "agentMessage" and i["text"]]
        answers = [m for m in messages if m["phase"] != "commentary"]
        view = "summary" if answers and self.turn["status"] == "completed" else "notLoaded"
        return {**self.turn, "items": answers[-1:] if view == "summary" else [], "itemsView": view}

    def interrupt(self) -> None:
        """Stop where it is; its end is told all the same."""
        self.interrupted = True
        assert self.task is not None, "it has begun"
        self.task.cancel()

    async def run(self) -> None:
        """The turn from its begin to `turn/completed`."""
        try:
            await self._begin()
            await self._model_loop()
            self.turn["status"] = "completed"
        except asyncio.CancelledError:
            # An interrupt is the only one who cancels; the end below is told all the same.
            self.turn["status"] = "interrupted"
        except Failed as error:
            self.turn["status"] = "failed"
            self.turn["error"] = {"message": str(error), "codexErrorInfo": error.info, "additionalDetails": None}
        self._end()

    async def _begin(self) -> None:
        await asyncio.sleep(_BEGIN_SECONDS)
        self.begun = True
        self.thread.turns.append(self.turn)
        self.turn["startedAt"] = int(time.time())
        self.thread.listed = True
        # A kill between here and the input's item leaves a turn without items.
        self.host.store.save(self.thread)
        self._status("active")
        self._tell("turn/started", {"turn": self.summary()})
        await asyncio.sleep(_DELIVERY_SECONDS)
        self.user_message(self.params)
        if self.stopped_early:
            self.interrupt()

    def user_message(self, params: Mapping[str, Any]) -> None:
        """An input becomes an item: from here on it is on disk."""
        content = [{"text_elements": [], **part} for part in params.get("input") or []]
        item = {
            "type": "userMessage",
            "id": new_id(),
            "clientId": params.get("clientUserMessageId"),
            "content": content,
        }
        self._item(item)

    async def _model_loop(self) -> None:
        steps, number = None, 0
        while True:
            texts = [{"role": "user", "content": text} for text in self._texts()]
            if steps is None:
                chosen = choose_script(texts)
                named = self.host.scripts.get(chosen.key, self.host.scripts.get("default"))
                steps, by_thread = (chosen.steps, False) if chosen.steps else script_steps(named)
                key = (self.thread.id, chosen.key)
                number = self.host.answered[key] if by_thread else 0
            self.host.answered[key] += 1
            step = fill_in(steps[min(number, len(steps) - 1)], texts, number)
            self.host.log.write("turns.jsonl", thread=self.thread.id, turn=self.id, request=number, texts=texts[-1:])
            steered = len(self.steered)
            again = await self._step(step, f"{self.id[-6:]}_{number}")
            number += 1
            if not again and step.get("end_turn", True) and len(self.steered) == steered:
                return

    def _texts(self) -> list[str]:
        items = (item for turn in self.thread.turns for item in turn["items"] if item["type"] == "userMessage")
        return ["\n".join(part.get("text", "") for part in item["content"]) for item in items]

    async def _step(self, step: Mapping[str, Any], mark: str) -> bool:
        """One model response. Whether the turn must ask the model again."""
        await self._pause(step.get("delay"))
        if step.get("wait_event"):
            while not (self.host.state / "events" / step["wait_event"]).exists():
                await asyncio.sleep(0.02)
        if step.get("reset"):
            raise Failed("other", "stream disconnected before completion")
        if step.get("http"):
            raise http_failure(step)
        await self._pause(step.get("hang"))
        await self._pause(step.get("before"))
        called = False
        for index, spec in enumerate(step_items(dict(step))):
            called = await self._output(spec, f"{mark}_{index}") or called
        await self._pause(step.get("hang_late"))
        await self._pause(step.get("after"))
        if step.get("cut"):
            raise Failed("other", "stream disconnected before completion")
        if step.get("failed"):
            raise stream_failure(step["failed"])
        if step.get("incomplete"):
            raise Failed("other", "Incomplete response returned")
        self._usage(step.get("usage", {}))
        return called

    async def _pause(self, seconds: float | bool | None) -> None:
        if seconds:
            await asyncio.sleep(1e9 if seconds is True else float(seconds))

    async def _output(self, spec: Mapping[str, Any], mark: str) -> bool:
        message = message_of(spec)
        if message:
            text, phase = message
            if phase in (None, "final_answer", "commentary"):
                self._item({"type": "agentMessage", "id": f"msg_{mark}", "text": text, "phase": phase})
            return False
        if "reasoning" in spec:
            self._item({"type": "reasoning", "id": f"rs_{mark}", "summary": [spec["reasoning"]], "content": []})
            return False
        if "exec" in spec:
            await self._command(spec, f"call_{mark}")
        return True

    async def _command(self, spec: Mapping[str, Any], number: str) -> None:
        item: dict[str, Any] = {
            "type": "commandExecution",
            "id": number,
            "command": f"/bin/bash -lc '{spec['exec']}'",
            "cwd": self.thread.cwd,
            "processId": None,
            "source": "unifiedExecStartup",
            "status": "inProgress",
            "commandActions": [],
            "aggregatedOutput": None,
            "exitCode": None,
            "durationMs": None,
        }
        escalates = spec.get("sandbox_permissions") == "require_escalated"
        if escalates and self.thread.approval_policy == "on-request":
            self._tell("item/started", {"item": item})
            params = {"kind": "command", "threadId": self.thread.id, "turnId": self.id, "itemId": number}
            answer = await self.host.wire.ask("item/commandExecution/requestApproval", params)
            if (answer.get("result") or {}).get("decision") != "accept":
                self._item({**item, "status": "declined"}, started=False)
                return
        began = time.monotonic()
        child = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            spec["exec"],
            cwd=self.thread.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        terminal = self.host.terminals.add(self.thread.id, number, spec["exec"], child)
        self._tell("item/started", {"item": item})
        try:
            output, _ = await asyncio.wait_for(
                asyncio.shield(terminal.output), spec.get("yield_time_ms", 10_000) / 1000
            )
        except TimeoutError:
            # Like the real one: the model gets what there is, the command runs on as a background terminal.
            return
        status = "completed" if child.returncode == 0 else "failed"
        ended = {"status": status, "exitCode": child.returncode, "aggregatedOutput": output.decode(errors="replace")}
        self._item({**item, **ended, "durationMs": int((time.monotonic() - began) * 1000)}, started=False)

    def _usage(self, scripted: Mapping[str, int]) -> None:
        tokens = {"input": 11, "cached": 0, "output": 7, "reasoning": 0, **scripted}
        last = {
            "totalTokens": tokens["input"] + tokens["output"],
            "inputTokens": tokens["input"],
            "cachedInputTokens": tokens["cached"],
            "outputTokens": tokens["output"],
            "reasoningOutputTokens": tokens["reasoning"],
        }
        total = {name: self.thread.total.get(name, 0) + count for name, count in last.items()}
        self.thread.total = total
        usage = {"total": total, "last": last, "modelContextWindow": 258400}
        self._tell("thread/tokenUsage/updated", {"tokenUsage": usage})

    def _item(self, item: dict[str, Any], *, started: bool = True) -> None:
        if started:
            self._tell("item/started", {"item": item})
        self.turn["items"].append(item)
        # On disk before it is told: what a client saw completed outlives a kill.
        self.host.store.save(self.thread)
        self._tell("item/completed", {"item": item})

    def _end(self) -> None:
        with contextlib.suppress(ValueError):
            started = self.turn["startedAt"] or int(time.time())
            self.turn["completedAt"] = int(time.time())
            self.turn["durationMs"] = (self.turn["completedAt"] - started) * 1000
        self.thread.failed = self.turn["status"] == "failed"
        if self.begun:
            self.host.store.save(self.thread)
        self.host.ended(self)
        self._status("systemError" if self.thread.failed else "idle")
        if self.turn["error"]:
            self._tell("error", {"error": self.turn["error"], "willRetry": False})
        self._tell("turn/completed", {"turn": self.summary()})

    def _status(self, kind: str) -> None:
        flags: dict[str, Any] = {"activeFlags": []} if kind == "active" else {}
        self.host.wire.notify("thread/status/changed", {"threadId": self.thread.id, "status": {"type": kind, **flags}})

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        if not self.host.listens(self.thread.id):
            return
        turn = {} if "turn" in params else {"turnId": self.id}
        self.host.wire.notify(method, {"threadId": self.thread.id, **turn, **params})
