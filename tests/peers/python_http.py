"""Runs the client of the Python SDK, 1.x or 2.x, against real remote servers through `regrow wrap URL`, and restarts the servers under it.

Run it with the Python of `.peers/mcp1` or `.peers/mcp2`. Each case prints `ok NAME` or `FAILED NAME: reason`.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from cases import SLACK, Answer, Report, WrongAnswer, expect, expect_in_time, expect_interrupted, expect_right, expect_text, until
from processes import describe, marked, wait_until_gone
from python_sdk import MODERN, SDK, Link, connect, hold

HERE = Path(__file__).resolve().parent
EXIT_WITHIN = 3.9  # SDKs close, wait 2 s for a call that is still open, send SIGTERM, and after 4 s SIGKILL: it never comes to that.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regrow", nargs="?", help="path of the regrow binary")
    parser.add_argument("--bare", action="store_true", help="straight over HTTP without Regrow, to check driver and servers")
    parser.add_argument("--mode", default="legacy", choices=["legacy", "auto", MODERN], help="how SDK 2.x finds the era")
    parser.add_argument("--peers", default=HERE.parent.parent / ".peers", type=Path)
    parser.add_argument("--server", action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    if bool(options.regrow) == options.bare:
        parser.error("give the path of regrow, or --bare")
    if SDK == 1 and options.mode != "legacy":
        parser.error("SDK 1.x speaks the legacy era only")

    report = Report(prefix=f"mcp{SDK}-{options.mode} http")
    for server in EVERY:
        if not options.server or server.name in options.server:
            anyio.run(live, report, options, server())
    return 1 if report.failures else 0


# One life of a connection: the server starts, the client connects, what the steps do to it, close.


async def live(report: Report, options: argparse.Namespace, server: "Server") -> None:
    with tempfile.TemporaryDirectory(prefix="regrow-peers-") as work:
        place = Place(options, server, Path(work))
        steps = [*server.steps(options), *([] if options.bare else server.restarts(options))]
        names = ["connects", *(name for name, _ in steps), "closes"]
        try:
            await place.start()
            async with anyio.create_task_group() as group:
                async with report.case(f"{server.name}: connects"):
                    link = await group.start(hold, place, options.mode, True, "debug")
                    await server.check_connected(link)
                for name, step in steps:
                    async with report.case(f"{server.name}: {name}"):
                        await step(link)
                async with report.case(f"{server.name}: closes"):
                    await check_close(link)
                    await server.check_closed(place)
        except Exception as broken:  # noqa: BLE001 - the session broke around us: said for each case not reached
            for name in names:
                report.not_reached(f"{server.name}: {name}", broken)
        finally:
            place.kill()
            place.end_all()


async def check_close(link: Link) -> None:
    there = marked(link.place.marker)
    started = time.monotonic()
    link.leave.set()
    await link.left.wait()
    took = time.monotonic() - started
    left = wait_until_gone(there, seconds=1.0) or marked(link.place.marker)
    expect(not left, f"still there after the close: {describe(left)}")
    expect(took < EXIT_WITHIN, f"closing took {took:.2f} s")


@dataclass
class Place:
    """Where one life happens: a folder, the port, the server that listens on it, and Regrow in front of it."""

    options: argparse.Namespace
    kind: "Server"
    work: Path
    port: int = field(default_factory=lambda: free_port())
    marker: str = field(default_factory=lambda: f"regrow-peers-{uuid.uuid4()}")
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.kind.path}"

    def transport(self, log: Any) -> Any:
        if self.options.bare:
            return sse_client(self.url) if self.kind.path == "/sse" else streamable_http_client(self.url)
        arguments = ["wrap", "--name", self.kind.name, self.url]
        # Regrow remembers the era of a URL, and the next server on this port is another.
        # Without patience a call says at once that its server is down, which is what these cases are about.
        env = {"REGROW_PEERS_MARKER": self.marker, "XDG_CACHE_HOME": str(self.work / "cache"), "REGROW_PATIENCE": "none"}
        return stdio_client(StdioServerParameters(command=self.options.regrow, args=arguments, env=env), errlog=log)

    def log(self) -> Any:
        return open(self.log_path(""), "w")

    def log_path(self, suffix: str) -> Path:
        folder = self.options.peers / "log"
        folder.mkdir(exist_ok=True)
        return folder / f"http-mcp{SDK}-{self.options.mode}-{self.kind.name}{suffix}.log"

    async def start(self) -> None:
        """Starts the server, and returns when it takes connections."""
        self.starts += 1
        with open(self.log_path(f"-server-{self.starts}"), "w") as log:
            command = self.kind.command(self.options.peers.resolve(), self.work, self.port)
            env = {**os.environ, "PORT": str(self.port)}
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with anyio.fail_after(20 + SLACK):
            while not listens(self.port):
                expect(self.process.poll() is None, f"the server ended: {self.server_log()[-500:]}")
                await anyio.sleep(0.02)

    def kill(self) -> None:
        """Kills the server, as a crash does; returns when it is gone."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def restart(self) -> None:
        self.kill()
        await self.start()

    def server_log(self) -> str:
        return self.log_path(f"-server-{self.starts}").read_text(errors="replace")

    def lines(self, name: str) -> int:
        path = self.work / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def end_all(self) -> None:
        """After a failure nobody stays."""
        for process in marked(self.marker):
            process.signal(9)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# The servers, and what is done to each.

Step = tuple[str, Callable[[Link], Awaitable[None]]]


class Server:
    name: str
    path = "/mcp"
    modern = False  # Whether it speaks the modern era,
    legacy = True  # and whether the legacy one.
    death = "may have run"  # How its end looks from here differs with the moment.

    def command(self, peers: Path, work: Path, port: int) -> list[str]:
        raise NotImplementedError

    def steps(self, options: argparse.Namespace) -> list[Step]:
        raise NotImplementedError

    def restarts(self, options: argparse.Namespace) -> list[Step]:
        """What no client survives by itself."""
        raise NotImplementedError

    async def read(self, link: Link) -> None:
        """Calls a tool and checks its real result."""
        raise NotImplementedError

    async def check_connected(self, link: Link) -> None:
        options = link.place.options
        # Regrow serves whichever era its client asks for, whatever the server's.
        modern = options.mode != "legacy" and (self.modern or not options.bare)
        expect((link.version == MODERN) == modern, f"speaks {link.version}")
        expect(bool(await link.tools()), "no tools")

    async def check_closed(self, place: Place) -> None:
        """What the server must have seen."""

    @asynccontextmanager
    async def subscribed(self, link: Link, uri: str | None, tools: bool = False) -> AsyncIterator[None]:
        """While inside, updates of this resource are announced, in the way of the client's era."""
        if link.version == MODERN:
            filter = {"resource_subscriptions": [uri]} if uri else {}
            async with link.session.listen(tools_list_changed=tools, **filter):
                yield
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # The modern era has another way, and says so.
                if uri:
                    await link.session.subscribe_resource(uri)
                yield
                if uri:
                    await link.session.unsubscribe_resource(uri)

    async def ask(self, link: Link, tool: str, right: str) -> None:
        async def answer() -> None:
            asked = len(link.questions)
            await until(lambda: len(link.questions) > asked, "the server asks")
            link.questions[-1].answer("Ann")

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            answered = await link.call(tool, {})
        expect_right(answered, right in answered.text)

    async def restarted_between_calls(self, link: Link) -> None:
        link.list_changed.clear()
        await link.place.restart()
        await self.read(link)

    async def a_call_while_it_is_down(self, link: Link) -> None:
        link.place.kill()
        started = time.monotonic()
        try:
            await self.read(link)
        except WrongAnswer as told:
            expect("did not run" in told.answer.text, f"told {told.answer.text!r}")
        else:
            raise AssertionError("the call was answered")
        expect_in_time(time.monotonic() - started)
        await link.place.start()
        await anyio.sleep(1)  # So often it is tried at most, after it has failed too often.
        await self.read(link)

    async def no_change_is_announced(self, link: Link) -> None:
        # Not even by everything, which itself says after every handshake that its tools changed.
        expect(not link.list_changed, f"{link.place.starts} starts, and the client was told {link.list_changed}")


class Everything(Server):
    """npm's server of everything, with sessions; it answers 400 to a session it does not know."""

    name = "everything-http"
    transport = "streamableHttp"
    farewell = "Received session termination request"
    uri = "demo://resource/dynamic/text/1"

    def command(self, peers: Path, work: Path, port: int) -> list[str]:
        script = peers / "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        return ["node", str(script), self.transport]

    def steps(self, options: argparse.Namespace) -> list[Step]:
        return [
            ("answers a call", self.read),
            ("progress comes before the answer", self.progress_comes_before_the_answer),
            ("reads a resource and a prompt", self.reads_a_resource_and_a_prompt),
            ("asks its user", self.asks_its_user),
            ("asks its model", self.asks_its_model),
            ("logs", self.logs),
            ("announces an update", self.announces_an_update),
        ]

    def restarts(self, options: argparse.Namespace) -> list[Step]:
        return [
            ("restarted between calls", self.restarted_between_calls),
            ("asks its user after that", self.asks_its_user),
            ("no change is announced", self.no_change_is_announced),
            ("killed during a call", self.killed_during_a_call),
            ("a call while it is down", self.a_call_while_it_is_down),
            ("a subscription outlives it", self.a_subscription_outlives_it),
        ]

    async def read(self, link: Link) -> None:
        expect_text(await link.call("echo", {"message": "hello"}), "Echo: hello")

    async def progress_comes_before_the_answer(self, link: Link) -> None:
        seen: list[float] = []
        arguments = {"duration": 1, "steps": 4}
        answer = await link.call("trigger-long-running-operation", arguments, lambda: seen.append(time.monotonic()))
        expect(len(seen) == 4, f"{len(seen)} of 4 signs of progress before the answer")
        expect_text(answer, "Long running operation completed. Duration: 1 seconds, Steps: 4.")

    async def reads_a_resource_and_a_prompt(self, link: Link) -> None:
        contents = (await link.session.read_resource(self.uri)).contents
        expect("Resource 1" in contents[0].text, f"read {contents}")
        prompt = await link.session.get_prompt("args-prompt", {"city": "Bern"})
        expect("Bern" in prompt.messages[0].content.text, f"got {prompt.messages}")

    async def asks_its_user(self, link: Link) -> None:
        await self.ask(link, "trigger-elicitation-request", "Name: Ann")

    async def asks_its_model(self, link: Link) -> None:
        answer = await link.call("trigger-sampling-request", {"prompt": "hello"})
        expect_right(answer, "something" in answer.text)

    async def logs(self, link: Link) -> None:
        if link.version != MODERN:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await link.session.set_logging_level("debug")
        link.logged.clear()
        # It says something of a random level at once, then every 5 s.
        await link.call("toggle-simulated-logging", {})
        await until(lambda: bool(link.logged), "something is logged", seconds=4)
        await link.call("toggle-simulated-logging", {})

    async def announces_an_update(self, link: Link) -> None:
        async with self.subscribed(link, self.uri):
            await self.hears_an_update(link)

    async def hears_an_update(self, link: Link) -> None:
        # This turns updates on, one at once and then every 5 s, for whom is subscribed; and off again.
        link.updated.clear()
        started = await link.call("toggle-subscriber-updates", {})
        expect_right(started, started.text.startswith("Started"))
        try:
            await until(lambda: bool(link.updated), "the update is heard", seconds=4)
        finally:
            await link.call("toggle-subscriber-updates", {})
        expect(link.updated == [self.uri], f"heard {link.updated}")

    async def a_subscription_outlives_it(self, link: Link) -> None:
        async with self.subscribed(link, self.uri):
            await link.place.restart()
            await self.hears_an_update(link)

    async def killed_during_a_call(self, link: Link) -> None:
        progress: list[float] = []
        answers: list[Answer] = []
        ended = 0.0

        async def call() -> None:
            nonlocal ended
            arguments = {"duration": 30, "steps": 120}
            seen = lambda: progress.append(time.monotonic())  # noqa: E731
            answers.append(await link.call("trigger-long-running-operation", arguments, seen))
            ended = time.monotonic()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: len(progress) >= 2, "the call shows progress")
            killed = time.monotonic()
            link.place.kill()
        expect_interrupted(self, answers[0])
        expect_in_time(ended - killed)
        await link.place.start()
        await self.read(link)

    async def check_closed(self, place: Place) -> None:
        # Once in this server's life, which began after the last restart.
        log = place.server_log
        await until(lambda: self.farewell in log(), "the server hears that its session is over", seconds=2)
        expect(log().count(self.farewell) == 1, f"the server hears {log().count(self.farewell)} times that a session is over")


class EverythingSse(Everything):
    """The same over the transport of 2024-11-05: one stream from the server, one POST for each message to it."""

    name = "everything-sse"
    path = "/sse"
    transport = "sse"
    farewell = "Client Disconnected"


class Remote(Server):
    """A server of ours on the Python SDK 2.x, which counts what it does."""

    name = "remote"
    modern = True
    script = "remote_server.py"
    sdk = "mcp2"
    options: tuple[str, ...] = ()
    streams = True  # Whether it says anything before its answers.
    cancels = True  # Whether it hears that a call is cancelled.
    asks = True

    def command(self, peers: Path, work: Path, port: int) -> list[str]:
        return [str(peers / self.sdk / "bin/python"), str(HERE / self.script), str(work), str(port), *self.options]

    def steps(self, options: argparse.Namespace) -> list[Step]:
        steps: list[Step] = [
            ("answers a call", self.read),
            ("reads a resource and a prompt", self.reads_a_resource_and_a_prompt),
        ]
        if self.cancels:
            steps.append(("a call is cancelled", self.a_call_is_cancelled))
        if self.streams:
            steps.append(("progress comes before the answer", self.progress_comes_before_the_answer))
        # A legacy client that has not said which messages it wants gets none from a modern server.
        if self.streams and (options.mode != "legacy" or self.legacy):
            steps.append(("logs", self.logs))
        # In the legacy era, whoever asks needs a stream.
        if self.asks and (self.streams or options.mode != "legacy"):
            steps += [("asks its user", self.asks_its_user), ("asks its model", self.asks_its_model)]
        if self.announces_to(options):
            steps.append(("announces an update", self.announces_an_update))
        return steps

    def announces_to(self, options: argparse.Namespace) -> bool:
        """In the legacy era this SDK has no subscriptions. Where there is no such era, Regrow makes them from those of the modern one."""
        return self.modern and (options.mode != "legacy" or not self.legacy)

    def restarts(self, options: argparse.Namespace) -> list[Step]:
        steps: list[Step] = [
            ("restarted between calls", self.restarted_between_calls),
            ("killed during a call", self.killed_during_a_call),
            ("a call while it is down", self.a_call_while_it_is_down),
            ("no change is announced", self.no_change_is_announced),
            ("starts again with other tools", self.starts_again_with_other_tools),
        ]
        if self.modern and self.legacy and options.mode == "legacy":
            steps.insert(0, ("forgets its session ten times", self.forgets_its_session))
        if self.announces_to(options):
            steps.append(("a subscription outlives it", self.a_subscription_outlives_it))
        return steps

    async def read(self, link: Link) -> None:
        runs = link.place.lines("count")
        expect_text(await link.call("work", {"seconds": 0}), "worked")
        more = link.place.lines("count") - runs
        expect(more == 1, f"one call ran {more} times")

    async def progress_comes_before_the_answer(self, link: Link) -> None:
        seen: list[float] = []
        expect_text(await link.call("work", {"seconds": 0.5}, lambda: seen.append(time.monotonic())), "worked")
        await until(lambda: len(seen) == 2, "both signs of progress are seen", seconds=1)

    async def reads_a_resource_and_a_prompt(self, link: Link) -> None:
        contents = (await link.session.read_resource("note://today")).contents
        expect(contents[0].text == "a fine day", f"read {contents}")
        prompt = await link.session.get_prompt("greet", {"name": "Ann"})
        expect(prompt.messages[0].content.text == "Greet Ann.", f"got {prompt.messages}")

    async def asks_its_user(self, link: Link) -> None:
        await self.ask(link, "ask", "hello Ann")

    async def asks_its_model(self, link: Link) -> None:
        expect_text(await link.call("sample", {}), "it said something")

    async def logs(self, link: Link) -> None:
        link.logged.clear()
        expect_text(await link.call("tell", {}), "told")
        await until(lambda: link.logged == ["told"], "it is logged", seconds=2)

    async def announces_an_update(self, link: Link) -> None:
        link.updated.clear()
        async with self.subscribed(link, "note://today"):
            await self.announce(link)

    async def announce(self, link: Link) -> None:
        expect_text(await link.call("announce", {}), "announced")
        await until(lambda: bool(link.updated), "the update is heard", seconds=4)
        expect(link.updated == ["note://today"], f"heard {link.updated}")

    async def a_call_is_cancelled(self, link: Link) -> None:
        runs, cancelled = link.place.lines("count"), link.place.lines("cancelled")
        async with anyio.create_task_group() as group:
            group.start_soon(link.call, "work", {"seconds": 30})
            await until(lambda: link.place.lines("count") > runs, "the call runs")
            await link.tell_cancelled()
            group.cancel_scope.cancel()
        await until(lambda: link.place.lines("cancelled") > cancelled, "the server hears of it", seconds=4)
        await self.read(link)

    async def killed_during_a_call(self, link: Link) -> None:
        place = link.place
        runs = place.lines("count")
        answers: list[Answer] = []
        ended = 0.0

        async def call() -> None:
            nonlocal ended
            answers.append(await link.call("work", {"seconds": 30}))
            ended = time.monotonic()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: place.lines("count") > runs, "the call runs")
            killed = time.monotonic()
            place.kill()
        expect_interrupted(self, answers[0])
        expect_in_time(ended - killed)
        await place.start()
        await self.read(link)
        more = place.lines("count") - runs
        expect(more == 2, f"two calls ran {more} times")

    async def forgets_its_session(self, link: Link) -> None:
        for _ in range(10):
            expect_text(await link.call("forget", {}), "forgotten")
            await self.read(link)

    async def starts_again_with_other_tools(self, link: Link) -> None:
        expect("more" not in await link.tools(), "the new tool is there already")
        async with self.subscribed(link, None, tools=True):
            (link.place.work / "more").touch()
            await link.place.restart()
            await self.read(link)
            await until(lambda: bool(link.list_changed), "the client is told")
            expect("more" in await link.tools(), "the new tool is not listed")
            told = ["notifications/tools/list_changed"]
            expect(link.list_changed == told, f"one change, and the client was told {link.list_changed}")

    async def a_subscription_outlives_it(self, link: Link) -> None:
        async with self.subscribed(link, "note://today"):
            await link.place.restart()
            link.updated.clear()
            await self.announce(link)


class RemoteModern(Remote):
    """The same without the legacy era."""

    name = "remote-modern"
    legacy = False
    options = ("--modern",)


class Replaced(RemoteModern):
    """Another server takes its address, of the other era. What Regrow remembered of it is then wrong."""

    name = "replaced"

    def steps(self, options: argparse.Namespace) -> list[Step]:
        return [("answers a call", self.read)]

    def restarts(self, options: argparse.Namespace) -> list[Step]:
        return [("the next client meets a server of the other era", self.met_by_the_next_client)]

    async def met_by_the_next_client(self, link: Link) -> None:
        link.place.kill()
        self.script, self.sdk, self.options = RemoteLegacy.script, RemoteLegacy.sdk, ()
        await link.place.start()
        async with connect(link.place, link.place.options.mode, False) as next_link:
            await self.read(next_link)


class RemoteJson(Remote):
    """The same without streams: each answer is one JSON body."""

    name = "remote-json"
    options = ("--json",)
    streams = False
    cancels = False


class RemoteLegacy(Remote):
    """The same on the Python SDK 1.x."""

    name = "remote-legacy"
    modern = False
    script = "remote_legacy_server.py"
    sdk = "mcp1"


class RemoteLegacyJson(RemoteLegacy):
    name = "remote-legacy-json"
    options = ("--json",)
    streams = False
    asks = False


class RemoteLegacyStateless(RemoteLegacy):
    """It gives no sessions: each request is served by a server of its own, so it can ask nothing."""

    name = "remote-legacy-stateless"
    options = ("--stateless",)
    cancels = False
    asks = False


EVERY: list[type[Server]] = [
    Everything,
    EverythingSse,
    Remote,
    RemoteModern,
    Replaced,
    RemoteJson,
    RemoteLegacy,
    RemoteLegacyJson,
    RemoteLegacyStateless,
]


if __name__ == "__main__":
    sys.exit(main())
