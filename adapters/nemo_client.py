"""NeMo Agent Toolkit: `MCPStdioClient` and `MCPStreamableHTTPClient`, and the tools that they give."""

from datetime import timedelta
from importlib.metadata import version
from typing import Any

from nat.plugins.mcp.client.client_base import MCPStdioClient, MCPStreamableHTTPClient

from lines import Held, ToolFailed, serve, server

FAILED = "MCPToolClient tool call failed: "


class Nemo:
    def __init__(self) -> None:
        self.held = Held()

    async def connect(self, timeout: float, call_timeout: float) -> str:
        url, command = server()
        limit = timedelta(seconds=call_timeout)
        if url:
            client = MCPStreamableHTTPClient(url, tool_call_timeout=limit)
        else:
            client = MCPStdioClient(command[0], command[1:], tool_call_timeout=limit)
        await self.held.enter(client)
        return "connected"

    async def list(self) -> str:
        return "\n".join(await self.held.value.get_tools())

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        text = await (await self.held.value.get_tool(tool)).acall(arguments)
        if text.startswith(FAILED):
            raise ToolFailed(text.removeprefix(FAILED))
        return text

    async def status(self) -> str:
        client = self.held.value
        return "ready" if client is not None and client.is_connected else "down"

    async def close(self) -> str:
        await self.held.leave()
        return "closed"


serve(f"nvidia-nat-mcp {version('nvidia-nat-mcp')}", Nemo())
