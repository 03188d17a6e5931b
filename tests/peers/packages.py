"""Real servers give the same answers directly and through a Regrow that npx or pip installed: packages.py REGROW --peers FOLDER

Packs the binary REGROW. npx gets the packages from a registry on this machine, pip gets the wheel; both install into empty environments.
Each case prints `ok NAME` or `FAILED NAME: reason`.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGING = HERE.parent.parent / "packaging"
LIMIT = 120.0  # Seconds that a connection may take on a machine that is busy.
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "packages", "version": "1"}}

# The tool that is called of each server, whose answer is always the same, and its arguments.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "everything-npx": ("get-sum", {"a": 2, "b": 40}),
    "filesystem": ("read_text_file", {"path": "{work}/text"}),
    "memory": ("search_nodes", {"query": "Ann"}),
    "git": ("git_log", {"repo_path": "{work}/repository"}),
    "mcp1": ("tell", {}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regrow", type=Path)
    parser.add_argument("--peers", default=HERE.parent.parent / ".peers", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="regrow-packages-") as folder:
        work = Path(folder)
        prepare(work)
        packages = pack(options.regrow, work)
        with registry(packages) as url:
            ways = {"npx": by_npx(work, url), "pip": by_pip(work, packages, options.peers)}
            compared = Compared(work, options.peers.resolve(), ways)
            with ThreadPoolExecutor(max_workers=2) as pool:
                same = list(pool.map(compared.report, CALLS))
    return 0 if all(same) else 1


# What is installed.


def pack(binary: Path, work: Path) -> Path:
    """The packages of this platform, from a binary without symbols: packing those takes longest."""
    stripped, packages = work / "regrow", work / "packages"
    subprocess.run(["strip", "-o", stripped, binary], check=True)
    target = f"{platform.machine()}-unknown-linux-musl"
    subprocess.run([sys.executable, PACKAGING / "assemble.py", stripped, target, packages], check=True, stdout=sys.stderr)
    return packages


@contextmanager
def registry(packages: Path) -> Iterator[str]:
    command = [sys.executable, PACKAGING / "registry.py", packages]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()


Way = tuple[list[str], dict[str, str]]  # A command, and what its environment has in addition.


def by_npx(work: Path, url: str) -> Way:
    home = work / "home"
    home.mkdir()
    # Nothing that this user has set or cached takes part.
    env = {"HOME": str(home), "npm_config_cache": str(work / "npm"), "npm_config_registry": url, "npm_config_update_notifier": "false"}
    command = ["npx", "-y", "regrow"]
    # Installs it, so that two at a time do not.
    subprocess.run([*command, "--version"], check=True, env=os.environ | env, cwd=home, stdout=sys.stderr)
    installed = list(work.glob("npm/_npx/*/node_modules/@regrow/*/bin/regrow"))
    assert [binary.read_bytes() for binary in installed] == [(work / "regrow").read_bytes()], f"npx installed {installed}"
    return command, env


def by_pip(work: Path, packages: Path, peers: Path) -> Way:
    venv.create(work / "venv", symlinks=True)
    [wheel] = packages.glob("*.whl")
    pip = [peers / "mcp2/bin/python", "-m", "pip", "--python", work / "venv/bin/python", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-index", wheel], check=True)
    installed = work / "venv/bin/regrow"
    assert installed.read_bytes() == (work / "regrow").read_bytes()
    return [str(installed)], {}


def prepare(work: Path) -> None:
    """What the servers find. Each of them is asked three times, so nothing may change it."""
    (work / "text").write_text("Regrow ✨\n")
    ann = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["knows MCP"]}
    (work / "memory.json").write_text(json.dumps(ann))
    git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-C", work / "repository"]
    subprocess.run(["git", "init", "--quiet", work / "repository"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "first"], check=True)


# What is compared.


class Compared:
    def __init__(self, work: Path, peers: Path, ways: dict[str, Way]) -> None:
        words = {"{peers}": str(peers), "{work}": str(work), "{here}": str(HERE)}
        servers = json.loads(filled((HERE / "servers.json").read_text(), words))
        servers["mcp1"] = {"command": [f"{peers}/mcp1/bin/python", f"{HERE}/remote_legacy_server.py", str(work), "0", "--stdio"]}
        self.servers = servers
        self.calls = json.loads(filled(json.dumps(CALLS), words))
        self.ways = ways
        self.work = work

    def report(self, server: str) -> bool:
        """Whether every way gives the answers of the server itself."""
        try:
            direct = self.answers(server, [], {})
            call = direct["a call"]
            assert "result" in call and not call["result"].get("isError"), f"the call itself failed: {call}"
            for way, (command, env) in self.ways.items():
                answers = self.answers(server, [*command, "wrap", "--log-level=error", "--"], env)
                for name, expected in direct.items():
                    assert answers[name] == expected, f"by {way}, {name}: {answers[name]}; directly {expected}"
                print(f"ok {server} by {way}: the same answers as directly", flush=True)
        except (AssertionError, ConnectionError) as failure:
            print(f"FAILED {server}: {failure}", flush=True)
            return False
        return True

    def answers(self, server: str, before: list[str], env: dict[str, str]) -> dict[str, dict[str, Any]]:
        entry = self.servers[server]
        tool, arguments = self.calls[server]
        with Connection([*before, *entry["command"]], os.environ | entry.get("env", {}) | env, self.work) as connection:
            return {
                "initialize": connection.request("initialize", CLIENT),
                "tools": connection.request("tools/list", {}),
                "a call": connection.request("tools/call", {"name": tool, "arguments": arguments}),
                "a tool that is not there": connection.request("tools/call", {"name": "nowhere", "arguments": {}}),
                "wrong parameters": connection.request("tools/call", {"name": 7}),
            }


class Connection:
    """A client without an SDK, so that answers are compared as they are on the wire."""

    def __init__(self, command: list[str], env: dict[str, str], folder: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        # In a group of their own, so that all of them can be ended: one that is left would keep its output open.
        self.process = subprocess.Popen(command, env=env, cwd=folder, process_group=0, **pipes)
        self.limit = threading.Timer(LIMIT, os.killpg, [self.process.pid, signal.SIGKILL])
        self.limit.start()
        self.requests = 0

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):  # It has ended already, and `request` says so.
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.limit.cancel()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self.requests and "method" not in message:
                if method == "initialize":
                    self.send({"method": "notifications/initialized"})
                return message
        raise ConnectionError(f"{self.process.args} ended during {method}; exit code {self.process.wait()}")

    def send(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


def filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


if __name__ == "__main__":
    sys.exit(main())
