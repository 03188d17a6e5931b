"""FastMCP: its `Client`, as its documentation shows."""

from importlib.metadata import version
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

from lines import Held, ToolFailed, serve, server, texts


class FastMcp:
    def __init__(self) -> None:
        self.held = Held()

    async def connect(self, timeout: float, call_timeout: float) -> str:
        url, command = server()
        target = url or StdioTransport(command=command[0], args=command[1:])
        await self.held.enter(Client(target, init_timeout=timeout))
        return "connected"

    async def list(self) -> str:
        return "\n".join(tool.name for tool in await self.held.value.list_tools())

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        try:
            result = await self.held.value.call_tool(tool, arguments, timeout=timeout)
        except ToolError as error:
            raise ToolFailed(str(error)) from error
        return texts(result.content)

    async def status(self) -> str:
        client = self.held.value
        return "ready" if client is not None and client.is_connected() else "down"

    async def close(self) -> str:
        await self.held.leave()
        return "closed"


serve(f"fastmcp {version('fastmcp')}", FastMcp())
