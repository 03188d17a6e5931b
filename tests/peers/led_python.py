"""The client of the Python SDK 1.x or 2.x, led by a driver (led.py): led_python.py [--mode MODE] URL | -- COMMAND..."""

import argparse
import os
import sys
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from led import follow
from python_sdk import Link, connect


class Place:
    """Where the gateway is."""

    def __init__(self, target: list[str]) -> None:
        self.target = target

    def transport(self, log: Any) -> Any:
        if self.target[0].startswith("http:"):
            return streamable_http_client(self.target[0])
        command, *arguments = self.target
        return stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)), errlog=log)

    @contextmanager
    def log(self) -> Any:
        yield sys.stderr


class Session:
    def __init__(self, link: Link) -> None:
        self.link = link
        self.call = link.call

    async def tools(self) -> list[str]:
        """All pages."""
        names: list[str] = []
        cursor = None
        while True:
            page = await self.link.session.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
            if cursor is None:
                return names


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="legacy")
    parser.add_argument("target", nargs="+")
    options = parser.parse_args()
    async with connect(Place(options.target), options.mode, asking=False) as link:
        await follow(Session(link), link.version)


anyio.run(main)
