"""Results of several MB through `regrow serve`, which passes them on while they arrive: real clients get them whole from real servers, and from one that
breaks off, what has come and the reason.

long_results.py REGROW --peers FOLDER
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

HERE = Path(__file__).parent
WITHIN = 60.0
TEXT, TIMES = 'a "word" ä€😀\n', 200_000
CUT = 3_000_000


class BreaksOff(BaseHTTPRequestHandler):
    """A legacy server that closes the connection in the middle of a long result: in its text, or in its structured content."""

    protocol_version = "HTTP/1.1"
    tool: dict[str, Any] = {"name": "repeat", "inputSchema": {"type": "object"}}
    result = '{"content": [{"type": "text", "text": "' + "x" * CUT

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in request:
            self.answer(202, b"")
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "tools/call":
            start = json.dumps(reply)[:-1] + ', "result": ' + self.result
            self.answer(200, start.encode(), missing=1000)
            self.close_connection = True
            return
        info = {"name": "breaks-off", "version": "1"}
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": [self.tool]},
            "ping": {},
        }
        result = results.get(request["method"])
        reply |= {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        self.answer(200, json.dumps(reply).encode())

    def answer(self, status: int, body: bytes, missing: int = 0) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(405, b"")

    do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        pass


class BreaksOffStructured(BreaksOff):
    tool = BreaksOff.tool | {"outputSchema": {"type": "object", "required": ["texts", "more"]}}
    result = BreaksOff.result + '"}], "structuredContent": {"texts": ["xxx'


@contextmanager
def breaking_off(handler: type[BreaksOff]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@contextmanager
def real(peers: Path, *options: str) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running([str(peers / "mcp2/bin/python"), str(HERE / "long_server.py"), str(port), *options]):
        wait_until(lambda: listens(port), "the server listens")
        yield port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def gateway(regrow: str, port: int, work: Path) -> Iterator[str]:
    config, log = work / "servers.json", work / "log"
    config.write_text(json.dumps({"mcpServers": {"long": {"url": f"http://127.0.0.1:{port}/mcp"}}}))
    env = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    with open(log, "w") as stderr, running([regrow, "serve", "--port", "0", str(config)], stderr=stderr, env=env):
        wait_until(lambda: "long: ready" in log.read_text(), f"all are ready: {log}")
        yield re.search(r"serving at (\S+)", log.read_text())[1]


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def call(command: list[str]) -> dict[str, Any]:
    """What a client gets that calls the tool."""
    request = {"id": 1, "call": "repeat", "arguments": {"text": TEXT, "times": TIMES}}
    done = subprocess.run(command, input=json.dumps(request) + "\n", text=True, capture_output=True, timeout=WITHIN)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return next((answer for answer in answers if answer.get("id") == 1), {"threw": done.stderr[-500:]})


def is_whole(answer: dict[str, Any]) -> bool:
    return answer.get("text") == TEXT * TIMES and not answer["isError"]


def is_cut(answer: dict[str, Any]) -> bool:
    start, _, reason = answer.get("text", "").partition("\n")
    return start == "x" * CUT and "may have run" in reason and answer["isError"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regrow")
    parser.add_argument("--peers", type=Path, required=True)
    options = parser.parse_args()
    python = [str(HERE / "led_python.py")]
    node = ["node", str(HERE / "led_typescript.mjs"), "--peers", str(options.peers), "--sdk"]
    legacy = {"python-1": [str(options.peers / "mcp1/bin/python"), *python], "typescript-1": [*node, "1"]}
    # The Python SDK 2.x takes no event over 1 MiB, so it can have such results only as JSON.
    auto = {
        "python-2": [str(options.peers / "mcp2/bin/python"), *python, "--mode", "auto"],
        "typescript-2": [*node, "2", "--mode", "auto"],
    }
    cases = [
        ("json", real(options.peers, "--json"), legacy | auto, is_whole),
        ("events", real(options.peers), legacy | auto, is_whole),
        ("breaks-off", breaking_off(BreaksOff), legacy, is_cut),
        ("breaks-off-structured", breaking_off(BreaksOffStructured), legacy, is_cut),
    ]
    failed = False
    for name, server, clients, is_right in cases:
        with tempfile.TemporaryDirectory() as work, server as port, gateway(options.regrow, port, Path(work)) as url:
            for client, command in clients.items():
                answer = call([*command, url])
                right = is_right(answer)
                failed |= not right
                shown = "" if right else f": {str(answer)[:300]} ... {str(answer)[-300:]}"
                print(f"{'ok' if right else 'FAILED'} long-results {client} {name}{shown}", flush=True)
    return int(failed)


sys.exit(main())
