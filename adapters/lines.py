"""The line protocol of `regrow chaos client` (docs/chaos.md), for adapters in Python."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol


class Adapter(Protocol):
    """What a framework is asked to do. An exception is its error; a returned text is its answer."""

    async def connect(self, timeout: float, call_timeout: float) -> str: ...
    async def list(self) -> str: ...
    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str: ...
    async def status(self) -> str: ...
    async def close(self) -> str: ...


class ToolFailed(Exception):
    """A tool's own failure, as the framework hands it on."""


def server() -> tuple[str | None, list[str]]:
    """The URL of the server, or the words of its command."""
    return os.environ.get("REGROW_CHAOS_URL"), json.loads(os.environ.get("REGROW_CHAOS_COMMAND", "[]"))


def serve(hello: str, adapter: Adapter) -> None:
    """Does what the lines on standard input say, each beside the others, until their end."""
    # What frameworks print must not stand between our lines.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    sys.stdout = sys.stderr

    def say(line: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            answers.write(json.dumps(line) + "\n")

    async def answer(task: dict[str, Any]) -> None:
        try:
            say({"id": task["id"], "ok": True, "text": await do(adapter, task)})
        except ToolFailed as failure:
            say({"id": task["id"], "ok": False, "error": str(failure)})
        except BaseException as error:  # A cancellation that comes out of a framework is its error, too.
            say({"id": task["id"], "ok": False, "error": told(error)})

    async def run() -> None:
        reader = asyncio.StreamReader(limit=2**24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        say({"hello": hello})
        tasks = set()
        while line := await reader.readline():
            task = json.loads(line)
            if "do" in task:  # The first line says where the server is, as the environment does.
                begun = asyncio.create_task(answer(task))
                tasks.add(begun)
                begun.add_done_callback(tasks.discard)
        await adapter.close()

    asyncio.run(run())


def told(error: BaseException) -> str:
    """What a traceback shows of an exception: its name and its text, and those of the exceptions in it."""
    text = f"{type(error).__name__}: {error}"
    parts = [told(part) for part in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return "; ".join([text, *parts])


def do(adapter: Adapter, task: dict[str, Any]) -> Awaitable[str]:
    timeout = task.get("timeout_ms", 30_000) / 1000
    match task["do"]:
        case "connect":
            return adapter.connect(timeout, task.get("call_timeout_ms", 5000) / 1000)
        case "list":
            return adapter.list()
        case "call":
            return adapter.call(task["tool"], task["arguments"], timeout)
        case "status":
            return adapter.status()
        case "close":
            return adapter.close()
        case other:
            raise ValueError(f"unknown task: {other}")


class Held:
    """Holds an asynchronous context in a task of its own: it must be left by the task that entered it."""

    def __init__(self) -> None:
        self.value: Any = None
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def enter(self, context: Any) -> Any:
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()

        async def hold() -> None:
            try:
                async with context as value:
                    entered.set_result(value)
                    await self._leave.wait()
            except BaseException as error:
                if entered.done():
                    raise
                entered.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

        self._task = asyncio.create_task(hold())
        self.value = await entered
        return self.value

    @property
    def is_held(self) -> bool:
        """Whether the context is still there: some end by themselves when their server does."""
        return self._task is not None and not self._task.done()

    async def leave(self) -> None:
        task, self._task, self.value = self._task, None, None
        if task is not None:
            self._leave.set()
            await task


def texts(content: list[Any]) -> str:
    return "\n".join(block.text for block in content if getattr(block, "type", "") == "text")
