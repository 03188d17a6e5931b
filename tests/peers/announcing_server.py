"""A small server on the Python SDK 2.x that has what time and git have not: `subscriptions/listen`, and a slow tool whose runs are counted.

announcing_server.py FILE: every run of `work` appends a line to FILE.
"""

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("announcing")


@server.tool()
async def announce(context: Context) -> str:
    """Says that the list of tools changed."""
    await context.notify_tools_changed()
    return "announced"


@server.tool()
async def work(seconds: float, context: Context) -> str:
    """Works for some seconds, with a sign of progress at its start."""
    with open(sys.argv[1], "a") as count:
        count.write("ran\n")
    await context.report_progress(1, 2, "started")
    await anyio.sleep(seconds)
    return "worked"


server.run("stdio")
