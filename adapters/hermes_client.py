"""Hermes agent: servers from its configuration, tools from its registry."""

import asyncio
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lines import ToolFailed, serve, server

home = tempfile.TemporaryDirectory(prefix="regrow-chaos-hermes-")
os.environ["HERMES_HOME"] = home.name

from tools.mcp_tool import (  # noqa: E402 (it reads its home when it is imported)
    discover_mcp_tools,
    get_mcp_status,
    mcp_prefixed_tool_name,
    shutdown_mcp_servers,
)
from tools.registry import registry  # noqa: E402

NAME = "chaos"
PREFIX = mcp_prefixed_tool_name(NAME, "")


class Hermes:
    async def connect(self, timeout: float, call_timeout: float) -> str:
        url, command = server()
        described: dict[str, Any] = {"timeout": call_timeout, "connect_timeout": timeout}
        if url:
            described["url"] = url
        else:
            described |= {"command": command[0], "args": command[1:]}
        # JSON is YAML.
        Path(home.name, "config.yaml").write_text(json.dumps({"mcp_servers": {NAME: described}}))
        await asyncio.to_thread(discover_mcp_tools)
        status = self.described()
        if not status.get("connected"):
            raise ToolFailed(status.get("error") or f"not connected: {status}")
        return "connected"

    def described(self) -> dict[str, Any]:
        return next((entry for entry in get_mcp_status() if entry["name"] == NAME), {})

    async def list(self) -> str:
        return "\n".join(name.removeprefix(PREFIX) for name in registry.get_all_tool_names() if name.startswith(PREFIX))

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float) -> str:
        text = await asyncio.to_thread(registry.dispatch, mcp_prefixed_tool_name(NAME, tool), arguments)
        answer = json.loads(text) if isinstance(text, str) else text
        if "error" in answer:
            raise ToolFailed(str(answer["error"]))
        return str(answer.get("result", answer))

    async def status(self) -> str:
        return "ready" if self.described().get("connected") else "down"

    async def close(self) -> str:
        await asyncio.to_thread(shutdown_mcp_servers)
        return "closed"


serve(f"hermes-agent {version('hermes-agent')}", Hermes())
