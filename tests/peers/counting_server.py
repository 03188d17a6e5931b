"""A server that starts at once and whose runs can be told apart: counting_server.py NAME FOLDER. No package needed.

Every run of `count` first appends its token to FOLDER/NAME, then works for some seconds; others go on meanwhile.
"""

import json
import sys
import threading
import time
from pathlib import Path

name, folder = sys.argv[1], Path(sys.argv[2])
SCHEMA = {"type": "object", "properties": {"token": {"type": "string"}, "seconds": {"type": "number"}}, "required": ["token"]}
TOOLS = [{"name": "count", "description": "Counts its runs.", "inputSchema": SCHEMA}]
output = threading.Lock()


def result(request: dict) -> dict | None:
    match request["method"]:
        case "initialize":
            information = {"name": name, "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return {"content": [{"type": "text", "text": count(**request["params"]["arguments"])}]}
    return None


def count(token: str, seconds: float = 0) -> str:
    with open(folder / name, "a") as runs:
        runs.write(f"{token}\n")
    time.sleep(seconds)
    return f"{name} counted {token}"


def answer(request: dict) -> None:
    found = result(request)
    outcome = {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
    with output:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
