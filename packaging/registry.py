#!/usr/bin/env python3
"""An npm registry on a free port of this machine that has only the packages in a folder: registry.py FOLDER

Prints its URL. The packages of other platforms are described, but cannot be downloaded: as npm must not need them. Ends with its input.
"""

import hashlib
import json
import sys
import tarfile
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

FOLDER = Path(sys.argv[1])


def packages(url: str) -> dict[str, dict]:
    found = {}
    for path in FOLDER.glob("*.tgz"):
        with tarfile.open(path) as archive:
            package = json.load(archive.extractfile("package/package.json"))
        integrity = "sha512-" + b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        found[package["name"]] = package | {"dist": {"tarball": f"{url}/-/{path.name}", "integrity": integrity}}
    for name, version in found["regrow"]["optionalDependencies"].items():
        system, cpu = name.removeprefix("@regrow/").split("-")
        elsewhere = {"name": name, "version": version, "os": [system], "cpu": [cpu], "dist": {"tarball": f"{url}/-/missing.tgz"}}
        found.setdefault(name, elsewhere)
    return found


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0]).lstrip("/")
        url = f"http://127.0.0.1:{self.server.server_port}"
        file = FOLDER / path.removeprefix("-/")
        if path.startswith("-/") and "/" not in path[2:] and file.is_file():
            self.answer(200, file.read_bytes())
        elif package := packages(url).get(path):
            version = package["version"]
            described = {"name": path, "dist-tags": {"latest": version}, "versions": {version: package}}
            self.answer(200, json.dumps(described).encode())
        else:
            self.answer(404, b"{}")

    def answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}", flush=True)
sys.stdin.read()
