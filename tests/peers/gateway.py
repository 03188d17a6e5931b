"""One `regrow serve` with its servers: starts it, kills its servers, ends it."""

import json
import os
import re
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path

from cases import expect, until
from processes import Process, describe, marked, wait_until_gone
from served import Server

START_WITHIN = 90.0  # All servers are up after that long, on a busy machine too.
CALL_WITHIN = 30.0  # The deadline of each call: it may wait until its server, which was just killed, has started again.
EXIT_WITHIN = 10.0  # It is gone this long after SIGTERM, as `--drain-timeout` says: servers are ended gently.


class Gateway:
    def __init__(self, regrow: str, servers: list[Server], work: Path, log: Path) -> None:
        self.regrow, self.servers, self.log = regrow, servers, log
        self.marker = f"regrow-peers-{uuid.uuid4()}"
        self.config = work / "servers.json"
        entries = {server.name: self.entry(server) for server in servers}
        options = {"callTimeout": f"{CALL_WITHIN:.0f}s"}
        self.config.write_text(json.dumps({"mcpServers": entries, "regrow": options}))
        self.env = {**os.environ, "REGROW_PEERS_MARKER": self.marker, "XDG_CACHE_HOME": str(work / "cache")}
        self.process: subprocess.Popen[bytes] | None = None

    def entry(self, server: Server) -> dict:
        command, *arguments = server.command()
        env = {**server.env(), "REGROW_PEERS_MARKER": self.mark(server)}
        return {"command": command, "args": arguments, "env": env, "regrow": {"era": server.era}}

    def mark(self, server: Server) -> str:
        return f"{self.marker}/{server.name}/"

    def stdio_command(self) -> list[str]:
        # Its client has nobody else to ask whether all servers are there, so its first list waits for them.
        return [self.regrow, "serve", "--transport", "stdio", "--list-wait", f"{START_WITHIN:.0f}s", str(self.config)]

    async def start(self) -> str:
        """Serves over HTTP, and returns the address when all servers are there."""
        with open(self.log, "w") as log:
            command = [self.regrow, "serve", "--port", "0", str(self.config)]
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stderr=log)
        await until(lambda: "serving at " in self.said() or self.process.poll() is not None, "it serves")
        address = re.search(r"serving at (\S+)", self.said())
        expect(address is not None, f"it ended: {self.said()[-500:]}")
        await until(self.all_are_ready, "all are ready", START_WITHIN)
        return address[1]

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def all_are_ready(self) -> bool:
        said = self.said()
        return all(f"{server.name}: ready" in said for server in self.servers)

    async def kill(self, server: Server) -> None:
        """Kills its process, as a crash does; one that is just being started, as soon as it is there."""
        found: list[Process] = []
        await until(lambda: bool(found.extend(marked(self.mark(server))) or found), f"{server.name} runs")
        # Not a program that it runs itself just now.
        min(found, key=lambda process: process.started).signal(signal.SIGKILL)

    async def terminate(self) -> None:
        """Nobody is left, in time, and it has ended in good order."""
        there = marked(self.marker)
        started = time.monotonic()
        self.process.terminate()
        await until(lambda: self.process.poll() is not None, "it ends", EXIT_WITHIN * 2)
        took = time.monotonic() - started
        self.expect_gone(there)
        expect(self.process.returncode == 0, f"it ended with {self.process.returncode}")
        expect(took < EXIT_WITHIN, f"it took {took:.2f} s")

    def expect_gone(self, there: list[Process]) -> None:
        expect(len(there) >= len(self.servers), f"only {describe(there)} were there")
        left = wait_until_gone(there, seconds=1.0) or marked(self.marker)
        expect(not left, f"still there after the end: {describe(left)}")

    def end_all(self) -> None:
        """After a failure nobody stays."""
        for process in marked(self.marker):
            with suppress(RuntimeError):  # It ended meanwhile.
                process.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
