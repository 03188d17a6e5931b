"""The Python SDK 2.x: its `Client`, as its README shows."""

from importlib.metadata import version
from typing import Any

from mcp import Client, StdioServerParameters

from lines import Held, ToolFailed, serve, server, texts


class Mcp2:
    def __init__(self) -> None:
        self.held = Held()

    async def connect(self, timeout: float, call_timeout: float) -> str:
        url, command = server()
        target = url or StdioServerParameters(command=command[0], args=command[1:])
        await self.held.enter(Client(target, read_timeout_seconds=timeout))
        return "connected"

    async def list(self) -> str:
        return "\n".join(tool.name for tool in (await self.held.value.list_tools()).tools)

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        result = await self.held.value.call_tool(tool, arguments, read_timeout_seconds=timeout)
        if result.is_error:
            raise ToolFailed(texts(result.content))
        return texts(result.content)

    async def status(self) -> str:
        return "unknown"

    async def close(self) -> str:
        await self.held.leave()
        return "closed"


serve(f"mcp {version('mcp')} (Python)", Mcp2())
