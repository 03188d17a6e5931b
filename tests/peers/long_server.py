"""A remote server on the Python SDK 2.x, for both eras, whose tool returns long texts: long_server.py PORT [--json]. --json answers without streams."""

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("long", log_level="WARNING")


@server.tool()
async def repeat(text: str, times: int) -> str:
    """The text, so many times."""
    return text * times


app = server.streamable_http_app(json_response="--json" in sys.argv)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
