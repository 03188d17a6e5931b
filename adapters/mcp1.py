"""The Python SDK 1.x: `ClientSession` over `stdio_client` or `streamable_http_client`, as its README shows."""

from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from lines import Held, ToolFailed, serve, server, texts


@asynccontextmanager
async def connected(timeout: float):
    url, command = server()
    if url:
        transport = streamable_http_client(url)
    else:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with transport as streams:
        async with ClientSession(*streams[:2], read_timeout_seconds=timedelta(seconds=timeout)) as session:
            await session.initialize()
            yield session


class Mcp1:
    def __init__(self) -> None:
        self.held = Held()

    async def connect(self, timeout: float, call_timeout: float) -> str:
        await self.held.enter(connected(timeout))
        return "connected"

    async def list(self) -> str:
        return "\n".join(tool.name for tool in (await self.held.value.list_tools()).tools)

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        result = await self.held.value.call_tool(tool, arguments, read_timeout_seconds=timedelta(seconds=timeout))
        if result.isError:
            raise ToolFailed(texts(result.content))
        return texts(result.content)

    async def status(self) -> str:
        return "unknown"

    async def close(self) -> str:
        await self.held.leave()
        return "closed"


serve(f"mcp {version('mcp')} (Python)", Mcp1())
