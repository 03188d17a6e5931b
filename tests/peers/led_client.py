"""A real client that a driver leads, in a process of its own (led.py says how)."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cases import expect
from gateway import CALL_WITHIN, START_WITHIN
from served import Call

CONNECT_WITHIN = 20.0
CLOSE_WITHIN = 5.0
SLACK = 1.0  # Between the end of a call at the gateway and here.


@dataclass
class Ended:
    """A call, and what its client was told."""

    call: Call
    answer: dict[str, Any]
    took: float

    @property
    def failed(self) -> bool:
        return bool(self.answer.get("isError"))

    @property
    def fault(self) -> dict[str, Any]:
        return (self.answer.get("meta") or {}).get("dev.regrow/fault") or {}

    def problem(self) -> str | None:
        """What is wrong with it, if anything: it must be right, or say truthfully what a kill did to it, and in time."""
        if self.took > CALL_WITHIN + SLACK:
            return f"{self.call.name} took {self.took:.1f} s: {self.answer}"
        if "text" not in self.answer:
            return f"{self.call.name} has no answer: {self.answer}"
        if not self.failed:
            return None if self.call.right(self.answer["text"]) else f"{self.call.name} answered {self.answer}"
        words = {"unknown": "may have run", "not-sent": "did not run"}.get(self.fault.get("delivery"))
        text, server = self.answer["text"], self.call.server.name
        truthful = words and words in text and text.startswith(f"{server}: ") and self.fault.get("server") == server
        truthful = truthful and self.fault.get("signal") == "SIGKILL"  # Nothing else happens to a server here.
        return None if truthful else f"{self.call.name} failed with {self.answer}"


@dataclass
class LedClient:
    name: str
    command: list[str]
    process: Any = None
    version: str = ""
    listed: list[str] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    lost: list[Any] = field(default_factory=list)  # Those whose server was killed on purpose while they ran.
    _asked: int = 0
    _pending: dict[int, Any] = field(default_factory=dict)

    async def connect(self, group: anyio.abc.TaskGroup, log: Path, env: dict[str, str]) -> None:
        with open(log, "w") as stderr:
            self.process = await anyio.open_process(self.command, stderr=stderr, env=env)
        connected = anyio.Event()
        group.start_soon(self._read, connected)
        with anyio.move_on_after(CONNECT_WITHIN):
            await connected.wait()
        expect(connected.is_set() and self.process.returncode is None, f"no session: {log.read_text()[-500:]}")

    async def _read(self, connected: anyio.Event) -> None:
        buffered = b""
        async for chunk in self.process.stdout:
            *lines, buffered = (buffered + chunk).split(b"\n")
            for line in map(json.loads, lines):
                if "connected" in line:
                    self.version = line["connected"]
                    connected.set()
                else:
                    self._end(line.pop("id"), line)
        for number in list(self._pending):
            self._end(number, {"threw": "the client ended"})

    def _end(self, number: int, answer: dict[str, Any]) -> None:
        told, slot = self._pending.pop(number)
        slot.append(answer)
        told.set()

    async def ask(self, request: dict[str, Any], seconds: float = CALL_WITHIN + 10) -> dict[str, Any]:
        self._asked += 1
        number, told, slot = self._asked, anyio.Event(), []
        self._pending[number] = (told, slot)
        try:
            await self.process.stdin.send(json.dumps({"id": number, **request}).encode() + b"\n")
            with anyio.move_on_after(seconds):
                await told.wait()
        except anyio.BrokenResourceError:
            return {"threw": "the client has ended"}
        return slot[0] if slot else {"threw": "never answered"}

    async def tools(self) -> list[str]:
        answer = await self.ask({"list": True}, seconds=START_WITHIN)
        expect("tools" in answer, f"no tools: {answer}")
        return answer["tools"]

    async def call(self, call: Call) -> Ended:
        started = time.monotonic()
        answer = await self.ask({"call": call.name, "arguments": call.arguments})
        ended = Ended(call, answer, time.monotonic() - started)
        self.ended.append(ended)
        return ended

    async def close(self) -> None:
        await self.process.stdin.aclose()
        with anyio.move_on_after(CLOSE_WITHIN):
            await self.process.wait()
        code = self.process.returncode
        if code is None:
            self.process.kill()
        expect(code == 0, f"it ended with {code}" if code is not None else "it did not end")
