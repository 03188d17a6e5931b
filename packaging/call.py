#!/usr/bin/env python3
"""Calls a tool through a wrapped server, kills the server, and calls again: call.py REGROW...

REGROW... is the command under test, such as `npx -y regrow`. The server behind it is a few lines of Python that answer with their process id.
Then the client closes its end, and the command must end with 0.
"""

import json
import os
import signal
import subprocess
import sys

SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "pid", "version": "1"}}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": str(os.getpid())}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Client:
    def __init__(self, regrow: list[str]) -> None:
        # Safe to repeat: the second call may reach the server before it is dead.
        command = [*regrow, "wrap", "--log-level=error", "--safe-tool", "pid", "--", sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        client = {"name": "packaging", "version": "1"}
        self.request(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, id: int, method: str, params: dict) -> dict:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == id:
                return message["result"]
        sys.exit(f"the connection ended during {method}; exit code {self.process.wait(60)}")

    def server_pid(self, id: int) -> int:
        return int(self.request(id, "tools/call", {"name": "pid", "arguments": {}})["content"][0]["text"])


def main() -> None:
    signal.alarm(120)
    client = Client(sys.argv[1:])
    first = client.server_pid(2)
    os.kill(first, signal.SIGKILL)
    second = client.server_pid(3)
    assert first != second, "the server was killed, and the next call reached a new one"
    client.process.stdin.close()
    code = client.process.wait(60)
    assert code == 0, f"exit code {code} after the client has left"
    print(f"ok {' '.join(sys.argv[1:])}: a wrapped call, a killed server, another call")


if __name__ == "__main__":
    main()
