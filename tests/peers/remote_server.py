"""A remote server on the Python SDK 2.x: both eras on one endpoint, told apart by the `MCP-Protocol-Version` header of each request.

remote_server.py FOLDER PORT [--json] [--modern]: every run of `work` appends a line to FOLDER/count, every cancelled one to FOLDER/cancelled. While
FOLDER/more exists, a server that starts has one more tool. --json answers without streams, --modern knows nothing of the legacy era.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel
from starlette.responses import JSONResponse

folder = Path(sys.argv[1])
server = MCPServer("remote", log_level="WARNING")


class Name(BaseModel):
    name: str


def question() -> Elicit[Name]:
    return Elicit("Who is it?", Name)


def prompt() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say something."))], max_tokens=10)


@server.tool()
async def work(seconds: float, context: Context) -> str:
    """Works for some seconds, with a sign of progress at its start and one at its end."""
    note("count")
    await context.report_progress(1, 2, "started")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    await context.report_progress(2, 2, "ended")
    return "worked"


@server.tool()
async def ask(who: Annotated[Name, Resolve(question)]) -> str:
    """Asks the user."""
    note("asked")
    return f"hello {who.name}"


@server.tool()
async def sample(said: Annotated[CreateMessageResult, Resolve(prompt)]) -> str:
    """Asks the client's model."""
    return f"it said {said.content.text}"


@server.tool()
async def tell(context: Context) -> str:
    """Says something to the client's log."""
    await context.warning("told")
    return "told"


@server.tool()
async def announce(context: Context) -> str:
    """Says that a resource changed."""
    await context.notify_resource_updated("note://today")
    return "announced"


@server.tool()
async def forget() -> str:
    """Forgets all sessions, as one that was redeployed behind the same address."""
    server.session_manager._server_instances.clear()
    return "forgotten"


if (folder / "more").exists():

    @server.tool()
    async def more() -> str:
        """Is there, or not."""
        return "more"


@server.resource("note://today")
def today() -> str:
    return "a fine day"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


def note(name: str) -> None:
    with open(folder / name, "a") as lines:
        lines.write("ran\n")


def only_modern(app: Any) -> Any:
    """Refuses what names no revision of the modern era, in its words."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        versions = [value for name, value in scope.get("headers", []) if name == b"mcp-protocol-version"]
        if scope["type"] == "http" and versions != [b"2026-07-28"]:
            data = {"supported": ["2026-07-28"], "requested": (versions or [b""])[0].decode()}
            error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return serve


app: Any = server.streamable_http_app(json_response="--json" in sys.argv)
uvicorn.run(only_modern(app) if "--modern" in sys.argv else app, port=int(sys.argv[2]), log_level="warning")
