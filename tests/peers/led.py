"""What a client does that a driver leads: the driver says what to call, and judges the answers. The same for every client.

On its standard input come requests, a JSON object on a line each, on its standard output go their answers, in any order:

    {"id": 1, "list": true}                               {"id": 1, "tools": [NAME, ...]}
    {"id": 2, "call": NAME, "arguments": {...}}           {"id": 2, "text": ..., "isError": ..., "meta": {...}}

An exception is told as {"id": 2, "threw": ...}. First goes out {"connected": VERSION}. When its input ends it closes its session, and exits with 0.
"""

import json
import sys
from typing import Any, Protocol

import anyio


class Session(Protocol):
    async def tools(self) -> list[str]: ...
    async def call(self, tool: str, arguments: dict[str, Any]) -> Any: ...


async def follow(session: Session, version: str) -> None:
    tell({"connected": version})
    async with anyio.create_task_group() as group:
        async for line in anyio.wrap_file(sys.stdin):
            group.start_soon(obey, session, json.loads(line))


async def obey(session: Session, request: dict[str, Any]) -> None:
    try:
        answer = await answered(session, request)
    except Exception as error:  # noqa: BLE001 - the driver judges it
        answer = {"threw": f"{type(error).__name__}: {error}"}
    tell({"id": request["id"], **answer})


async def answered(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    if "list" in request:
        return {"tools": await session.tools()}
    answer = await session.call(request["call"], request["arguments"])
    return {"text": answer.text, "isError": answer.is_error, "meta": answer.meta}


def tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)
