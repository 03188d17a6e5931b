"""A client's session, the same for the Python SDK 1.x and 2.x."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from signal import SIGKILL
from typing import Any

import anyio
import anyio.abc

from cases import Answer
from processes import Process

SDK = int(version("mcp").split(".")[0])
if SDK == 1:
    from mcp import ClientSession
    from mcp.types import (
        CancelledNotification,
        CancelledNotificationParams,
        ClientNotification,
        CreateMessageResult,
        ElicitResult,
        TextContent,
    )
else:
    from mcp import Client
    from mcp_types import CreateMessageResult, ElicitResult, TextContent
MODERN = "2026-07-28"


@dataclass
class Link:
    """A client's session, the same for both SDKs."""

    place: Any
    session: Any = None
    version: str = ""
    list_changed: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    questions: list["Question"] = field(default_factory=list)
    open_calls: list[asyncio.Task[None]] = field(default_factory=list)
    deaths: int = 0
    leave: anyio.Event = field(default_factory=anyio.Event)
    left: anyio.Event = field(default_factory=anyio.Event)

    async def tools(self) -> set[str]:
        return {tool.name for tool in (await self.session.list_tools()).tools}

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: Callable[[], None] | None = None) -> Answer:
        async def progress(*_: Any) -> None:
            if on_progress:
                on_progress()

        result = await self.session.call_tool(tool, arguments, progress_callback=progress if on_progress else None)
        texts = [block.text for block in result.content if block.type == "text"]
        is_error = result.isError if SDK == 1 else result.is_error
        return Answer("\n".join(texts), bool(is_error), result.meta or {})

    async def tell_cancelled(self) -> None:
        """SDK 1.x does not say so itself when a call of its is cancelled. Here, its last one."""
        if SDK == 1:
            parameters = CancelledNotificationParams(requestId=self.session._request_id - 1)
            await self.session.send_notification(ClientNotification(CancelledNotification(params=parameters)))

    async def kill(self) -> Process:
        """Kills the server and returns without waiting for its end."""
        server = await self.place.server()
        self.deaths += 1
        server.signal(SIGKILL)
        return server


class Question:
    """One that the server asked its user, until the test answers it."""

    def __init__(self) -> None:
        self.name = ""
        self.answered = anyio.Event()
        self.cancelled = False

    def answer(self, name: str) -> None:
        self.name = name
        self.answered.set()

    async def wait(self) -> dict[str, str]:
        try:
            await self.answered.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        return {"name": self.name}


@asynccontextmanager
async def connect(place: Any, mode: str, asking: bool, log_level: str | None = None) -> AsyncIterator[Link]:
    """Holds a session over the transport of this place. A client that is asking has a user and a model to ask."""
    link = Link(place)

    async def on_message(message: Any) -> None:
        notification = getattr(message, "root", message)
        method = getattr(notification, "method", "")
        if method.endswith("/list_changed"):
            link.list_changed.append(method)
        if method == "notifications/resources/updated":
            link.updated.append(str(notification.params.uri))

    async def on_log(parameters: Any) -> None:
        link.logged.append(str(parameters.data))

    async def on_question(_context: Any, _parameters: Any) -> Any:
        question = Question()
        link.questions.append(question)
        return ElicitResult(action="accept", content=await question.wait())

    async def on_sample(_context: Any, _parameters: Any) -> Any:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="something"), model="none")

    callbacks: dict[str, Any] = {"message_handler": on_message, "logging_callback": on_log}
    if asking:
        callbacks |= {"elicitation_callback": on_question, "sampling_callback": on_sample}
    with place.log() as log:
        if SDK == 1:
            async with place.transport(log) as streams:
                async with ClientSession(*streams[:2], **callbacks) as link.session:
                    link.version = (await link.session.initialize()).protocolVersion
                    yield link
        else:
            callbacks["log_level"] = log_level
            async with Client(place.transport(log), mode=mode, **callbacks) as link.session:
                link.version = link.session.protocol_version
                yield link


async def hold(
    place: Any, mode: str, asking: bool, log_level: str | None = None, *, task_status: anyio.abc.TaskStatus[Link]
) -> None:
    """Holds the connection in a task of its own: an SDK's session must be left by the task that entered it."""
    leaves = anyio.Event()
    try:
        async with connect(place, mode, asking, log_level) as link:
            leaves = link.leave
            task_status.started(link)
            await leaves.wait()
    except* anyio.BrokenResourceError:
        # SDK 1.x fails so, whoever the server is, when a line comes while it closes.
        if SDK != 1 or not leaves.is_set():
            raise
    link.left.set()
