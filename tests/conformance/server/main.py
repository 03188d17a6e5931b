"""A server with everything that the official conformance suite calls, on the Python SDK 2.x: both eras on one endpoint.

main.py: on standard input and output. main.py PORT: over Streamable HTTP; port 0 takes a free one. The address is told on stderr.
"""

import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server

import prompts
import resources
import tools
from changes import listen


async def complete(_context: Any, _params: Any) -> types.CompleteResult:
    values = types.Completion(values=["test one", "test two"], total=2, has_more=False)
    return types.CompleteResult(completion=values)


async def accept(_context: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def build() -> Server[Any]:
    hint = CacheHint(ttl_ms=0, scope="private")
    cacheable = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover")
    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        cache_hints={method: hint for method in cacheable},
        get_tool_input_schema=tools.input_schema,
        on_list_tools=tools.list_all,
        on_call_tool=tools.call,
        on_list_prompts=prompts.list_all,
        on_get_prompt=prompts.get,
        on_list_resources=resources.list_all,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=listen,
        on_completion=complete,
        on_set_logging_level=accept,
    )
    # What a client must hand back unchanged is sealed, so that a change is seen.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="conformance"))
    return server


async def over_stdio(server: Server[Any]) -> None:
    changes = NotificationOptions(prompts_changed=True, tools_changed=True)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options(changes))


def over_http(server: Server[Any], port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


# The legacy era's logging and sampling are deprecated in the SDK, and tested here.
warnings.simplefilter("ignore")
if len(sys.argv) > 1:
    over_http(build(), int(sys.argv[1]))
else:
    anyio.run(over_stdio, build())
