"""FastMCP's client, led by a driver (led.py): led_fastmcp.py [--mode MODE] URL"""

import argparse
from typing import Any

import anyio
from fastmcp import Client

from cases import Answer
from led import follow


class Session:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        result = await self.client.call_tool(tool, arguments, raise_on_error=False)
        texts = [block.text for block in result.content if block.type == "text"]
        return Answer("\n".join(texts), result.is_error, result.meta or {})


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="auto")
    parser.add_argument("url")
    options = parser.parse_args()
    async with Client(options.url, mode=options.mode) as client:
        await follow(Session(client), client.protocol_version)


anyio.run(main)
