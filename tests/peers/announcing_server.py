"""A small server on the Python SDK 2.x with what time and git have not: `subscriptions/listen`, a slow tool whose runs are counted, and tools that may change.

announcing_server.py FOLDER: every run of `work` appends a line to FOLDER/count. While FOLDER/more exists, a server that starts has one more tool.
"""

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

folder = Path(sys.argv[1])
server = MCPServer("announcing")


@server.tool()
async def announce(context: Context) -> str:
    """Says that a resource changed."""
    await context.notify_resource_updated("note://today")
    return "announced"


@server.tool()
async def work(seconds: float, context: Context) -> str:
    """Works for some seconds, with a sign of progress at its start."""
    with open(folder / "count", "a") as count:
        count.write("ran\n")
    await context.report_progress(1, 2, "started")
    await anyio.sleep(seconds)
    return "worked"


if (folder / "more").exists():

    @server.tool()
    async def more() -> str:
        """Is there, or not."""
        return "more"


server.run("stdio")
