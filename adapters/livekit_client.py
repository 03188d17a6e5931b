"""LiveKit agents: `MCPServerStdio` and `MCPServerHTTP`, and the function tools that they make."""

import json
from importlib.metadata import version
from typing import Any

from livekit.agents.llm import ToolError
from livekit.agents.llm.mcp import MCPServerHTTP, MCPServerStdio
from livekit.agents.llm.tool_context import get_raw_function_info

from lines import ToolFailed, serve, server


class LiveKit:
    def __init__(self) -> None:
        self.server: Any = None
        self.tools: dict[str, Any] = {}

    async def connect(self, timeout: float, call_timeout: float) -> str:
        url, command = server()
        if url:
            self.server = MCPServerHTTP(url, client_session_timeout_seconds=call_timeout)
        else:
            self.server = MCPServerStdio(command[0], command[1:], client_session_timeout_seconds=call_timeout)
        await self.server.initialize()
        await self.list()
        return "connected"

    async def list(self) -> str:
        self.server.invalidate_cache()
        tools = await self.server.list_tools()
        self.tools = {get_raw_function_info(tool).name: tool for tool in tools}
        return "\n".join(self.tools)

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        try:
            result = await self.tools[tool](raw_arguments=arguments)
        except ToolError as error:
            raise ToolFailed(error.message) from error
        return json.loads(result)["text"]

    async def status(self) -> str:
        return "ready" if self.server is not None and self.server.initialized else "down"

    async def close(self) -> str:
        if self.server is not None:
            await self.server.aclose()
        return "closed"


serve(f"livekit-agents {version('livekit-agents')}", LiveKit())
