"""The same server as `remote_server.py` on the Python SDK 1.x, which knows the legacy era only: remote_legacy_server.py FOLDER PORT [--json] [--stateless] [--stdio]."""

import sys
from pathlib import Path

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

folder = Path(sys.argv[1])
server = FastMCP(
    "remote-legacy",
    log_level="WARNING",
    host="127.0.0.1",
    port=int(sys.argv[2]),
    json_response="--json" in sys.argv,
    stateless_http="--stateless" in sys.argv,
)


class Name(BaseModel):
    name: str


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
async def ask(context: Context) -> str:
    """Asks the user."""
    answer = await context.elicit("Who is it?", Name)
    note("asked")
    return f"hello {answer.data.name}"


@server.tool()
async def sample(context: Context) -> str:
    """Asks the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say something."))
    said = await context.session.create_message([message], max_tokens=10, related_request_id=context.request_id)
    return f"it said {said.content.text}"


@server.tool()
async def tell(context: Context) -> str:
    """Says something to the client's log."""
    await context.warning("told")
    return "told"


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


server.run("stdio" if "--stdio" in sys.argv else "streamable-http")
