"""A server that ends when anything comes before `initialize`, as those on some SDKs do. No package needed."""

import json
import sys

TOOLS = [{"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object"}}]


def answer(request: dict) -> dict:
    parameters = request.get("params", {})
    match request["method"]:
        case "initialize":
            information = {"name": "impatient", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return {"content": [{"type": "text", "text": parameters["arguments"]["message"]}]}
        case _:
            return {}


initialized = False
for line in sys.stdin:
    message = json.loads(line)
    initialized = initialized or message["method"] == "initialize"
    if not initialized:
        sys.exit("expected initialize")
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)
