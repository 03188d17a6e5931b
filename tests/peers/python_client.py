"""Runs the client of the Python SDK, 1.x or 2.x, against real servers through Regrow, and kills the servers under it.

Run it with the Python of `.peers/mcp1` or `.peers/mcp2`. Each case prints `ok NAME` or `FAILED NAME: reason`.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from typing import Any

import anyio
import anyio.to_thread
from mcp.client.stdio import StdioServerParameters, stdio_client

from cases import SLACK, Answer, Report, WrongAnswer, expect, expect_in_time, expect_interrupted, expect_right, expect_text, json_of, until
from processes import Process, describe, descendants, marked, unread, wait_until_gone
from python_sdk import MODERN, SDK, Link, hold

HERE = Path(__file__).resolve().parent
EXIT_WITHIN = 3.9  # SDKs close, wait 2 s for a call that is still open, send SIGTERM, and after 4 s SIGKILL: it never comes to that.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regrow", nargs="?", help="path of the regrow binary")
    parser.add_argument("--bare", action="store_true", help="without Regrow, to check the driver itself")
    parser.add_argument("--mode", default="legacy", choices=["legacy", "auto"], help="how SDK 2.x finds the era")
    parser.add_argument("--peers", default=HERE.parent.parent / ".peers", type=Path)
    parser.add_argument("--server", action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    if bool(options.regrow) == options.bare:
        parser.error("give the path of regrow, or --bare")
    if SDK == 1 and options.mode != "legacy":
        parser.error("SDK 1.x speaks the legacy era only")

    report = Report(prefix=f"mcp{SDK}-{options.mode}")
    for server in servers(options):
        anyio.run(live, report, options, server)
    return 1 if report.failures else 0


def servers(options: argparse.Namespace) -> list["Server"]:
    every: list[Server] = [Everything(), EverythingAsking(), Filesystem(), Memory(), Time(), Git(), Announcing()]
    if SDK == 1:
        every.append(EverythingByNpx())
    if options.mode == "auto" and not options.bare:
        every.append(Impatient())  # Without Regrow this client does not get past it.
    return [server for server in every if not options.server or server.name in options.server]


# One life of a connection: connect, what the server's steps do to it, close.


async def live(report: Report, options: argparse.Namespace, server: "Server") -> None:
    with tempfile.TemporaryDirectory(prefix="regrow-peers-") as work:
        place = Place(options, server.name, Path(work))
        server.prepare(place)
        steps = server.bare_steps() if options.bare else server.steps()
        names = ["connects", *(name for name, _ in steps), "closes"]
        try:
            async with anyio.create_task_group() as group:
                async with report.case(f"{server.name}: connects"):
                    link = await group.start(hold, place, options.mode, server.asking)
                    await server.check_connected(link)
                for name, step in steps:
                    async with report.case(f"{server.name}: {name}"):
                        await step(link)
                async with report.case(f"{server.name}: closes"):
                    await check_close(link)
        except Exception as broken:  # noqa: BLE001 - the session broke around us: said for each case not reached
            for name in names:
                report.not_reached(f"{server.name}: {name}", broken)
        finally:
            place.end_all()


async def check_close(link: Link) -> None:
    there = link.place.processes()
    started = time.monotonic()
    link.leave.set()
    await link.left.wait()
    took = time.monotonic() - started
    # The SDK waits for its child; whoever else there is ends with it.
    left = wait_until_gone(there, seconds=1.0) or link.place.processes()
    expect(not left, f"still there after the close: {describe(left)}")
    expect(took < EXIT_WITHIN, f"closing took {took:.2f} s")


@dataclass
class Place:
    """Where one life happens: a folder, the commands, and the processes that belong to it."""

    options: argparse.Namespace
    name: str
    work: Path
    marker: str = field(default_factory=lambda: f"regrow-peers-{uuid.uuid4()}")

    def entry(self) -> dict[str, Any]:
        text = (HERE / "servers.json").read_text()
        for word, path in {"peers": self.options.peers.resolve(), "work": self.work, "here": HERE}.items():
            text = text.replace("{" + word + "}", str(path))
        return json.loads(text)[self.name]

    def command(self) -> list[str]:
        server = self.entry()["command"]
        return server if self.options.bare else [self.options.regrow, "wrap", "--name", self.name, "--", *server]

    def transport(self, log: Any) -> Any:
        program, *arguments = self.command()
        return stdio_client(StdioServerParameters(command=program, args=arguments, env=self.env()), errlog=log)

    def env(self) -> dict[str, str]:
        return {"REGROW_PEERS_MARKER": self.marker, **self.entry().get("env", {})}

    def log(self) -> Any:
        folder = self.options.peers / "log"
        folder.mkdir(exist_ok=True)
        return open(folder / f"mcp{SDK}-{self.options.mode}-{self.name}.log", "w")

    def processes(self) -> list[Process]:
        """All that live here; a server that Regrow gave another environment counts by its parents."""
        here = marked(self.marker)
        return list(dict.fromkeys(here + [below for process in here for below in descendants(process.pid)]))

    async def server(self) -> Process:
        """The server's process: the one that has the server's command line, and not ours with that in its tail."""
        entry = self.entry()
        command = entry.get("process", entry["command"])
        with anyio.fail_after(15 + SLACK):
            while True:
                found = [process for process in self.processes() if process.command() == command]
                if len(found) == 1:
                    return found[0]
                expect(not found, f"more than one server: {describe(found)}")
                await anyio.sleep(0.005)

    def end_all(self) -> None:
        """After a failure nobody stays. Only what was started here, and is still below us, is signalled."""
        for process in self.processes():
            if process in descendants():
                process.signal(SIGKILL)
        wait_until_gone(self.processes(), seconds=2.0)


# The servers, and what is done to each.

Step = tuple[str, Callable[[Link], Awaitable[None]]]


class Server:
    name: str
    tool: str
    modern = False  # Whether it answers `server/discover`.
    asking = False  # Whether its client lets itself be asked.
    death = "killed by SIGKILL"  # What Regrow sees of it.

    def prepare(self, place: Place) -> None:
        """What the server needs to find when it starts."""

    async def read(self, link: Link) -> None:
        """Calls a tool and checks its real result."""
        raise NotImplementedError

    async def killed_during_a_call(self, link: Link) -> None:
        raise NotImplementedError

    def steps(self) -> list[Step]:
        return [
            ("answers a call", self.read),
            ("killed between calls", self.killed_between_calls),
            ("killed just before a call", self.killed_just_before_a_call),
            ("killed during a call", self.killed_during_a_call),
            ("works after that", self.read),
            ("no change is announced", self.no_change_is_announced),
        ]

    def bare_steps(self) -> list[Step]:
        return [("answers a call", self.read)]

    async def check_connected(self, link: Link) -> None:
        modern = link.place.options.mode == "auto" and self.modern
        expect((link.version == MODERN) == modern, f"speaks {link.version}")
        tools = await link.tools()
        expect(self.tool in tools, f"no tool {self.tool} among {sorted(tools)}")

    async def killed_between_calls(self, link: Link) -> None:
        link.list_changed.clear()
        link.deaths = 0
        killed = await link.kill()
        await until(lambda: not killed.alive(), "the server is dead")
        await self.read(link)

    async def killed_just_before_a_call(self, link: Link) -> None:
        await link.kill()
        try:
            await self.read(link)
        except WrongAnswer as wrong:
            # In the moment of its death the server may still take the call out of the pipe. Then nobody can know.
            expect_interrupted(self, wrong.answer)
            await self.read(link)

    async def no_change_is_announced(self, link: Link) -> None:
        # Not even by everything, which itself says after every handshake that its tools changed.
        expect(not link.list_changed, f"{link.deaths} deaths, and the client was told {link.list_changed}")

    async def death_ends_the_session(self, link: Link) -> None:
        await link.kill()
        try:
            with anyio.fail_after(10 + SLACK):
                await self.read(link)
        except Exception:  # noqa: BLE001 - which one depends on the SDK
            return
        raise AssertionError("the call was answered")


class Everything(Server):
    name = "everything"
    tool = "trigger-long-running-operation"

    async def read(self, link: Link) -> None:
        expect_text(await link.call("echo", {"message": "hello"}), "Echo: hello")

    def steps(self) -> list[Step]:
        progress = ("progress comes before the answer", self.progress_comes_before_the_answer)
        ten = ("killed during ten calls", self.killed_during_ten_calls)
        steps = super().steps()
        return [steps[0], progress, *steps[1:4], ten, *steps[4:], ("a call is left open", self.a_call_is_left_open)]

    def bare_steps(self) -> list[Step]:
        return [
            ("answers a call", self.read),
            ("progress comes before the answer", self.progress_comes_before_the_answer),
        ]

    async def a_call_is_left_open(self, link: Link) -> None:
        async def call() -> None:
            with suppress(Exception):  # The close that follows ends it.
                await link.call(self.tool, {"duration": 30, "steps": 1})

        link.open_calls.append(asyncio.create_task(call()))
        await self.read(link)

    async def progress_comes_before_the_answer(self, link: Link) -> None:
        seen: list[float] = []
        answer = await link.call(self.tool, {"duration": 1, "steps": 4}, lambda: seen.append(time.monotonic()))
        expect(len(seen) == 4, f"{len(seen)} of 4 signs of progress before the answer")
        expect_text(answer, "Long running operation completed. Duration: 1 seconds, Steps: 4.")

    async def killed_during_a_call(self, link: Link) -> None:
        await self.killed_during(link, calls=1)

    async def killed_during_ten_calls(self, link: Link) -> None:
        await self.killed_during(link, calls=10)
        await self.read(link)

    async def killed_during(self, link: Link, calls: int) -> None:
        progress = [0] * calls
        answers: list[Answer | None] = [None] * calls
        ended = [0.0] * calls

        async def call(number: int) -> None:
            def on_progress() -> None:
                progress[number] += 1

            answers[number] = await link.call(self.tool, {"duration": 30, "steps": 120}, on_progress)
            ended[number] = time.monotonic()

        async with anyio.create_task_group() as group:
            for number in range(calls):
                group.start_soon(call, number)
            await until(lambda: all(count >= 2 for count in progress), "each call shows progress")
            killed = time.monotonic()
            await link.kill()
        for number in range(calls):
            expect_interrupted(self, answers[number])
            expect_in_time(ended[number] - killed)


class EverythingAsking(Server):
    """The same server, with a client that lets itself be asked and that subscribes."""

    name = "everything-asking"
    tool = "trigger-elicitation-request"
    asking = True

    async def read(self, link: Link) -> None:
        expect_text(await link.call("echo", {"message": "hello"}), "Echo: hello")

    def steps(self) -> list[Step]:
        return [
            ("a question ends with the server that asked it", self.a_question_ends_with_its_server),
            ("a subscription outlives its server", self.a_subscription_outlives_its_server),
        ]

    def bare_steps(self) -> list[Step]:
        return [("a question is answered", self.a_question_is_answered), ("a subscription is served", self.is_served)]

    async def a_question_is_answered(self, link: Link) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.ask, link, "right")
            await until(lambda: len(link.questions) == 1, "the server asks")
            link.questions[0].answer("right")

    async def ask(self, link: Link, name: str) -> None:
        answer = await link.call(self.tool, {})
        expect_right(answer, f"Name: {name}" in answer.text)

    async def a_question_ends_with_its_server(self, link: Link) -> None:
        answers: list[Answer] = []

        async def ask_and_lose() -> None:
            answers.append(await link.call(self.tool, {}))

        async with anyio.create_task_group() as group:
            group.start_soon(ask_and_lose)
            await until(lambda: len(link.questions) == 1, "the server asks")
            killed = await link.kill()
            await until(lambda: not killed.alive(), "the server is dead")
            # The new server numbers its questions from the start again, so a late answer to the old question fits the new one.
            group.start_soon(self.ask, link, "right")
            if SDK == 1:
                # It reads nothing while a question is open: it cannot see a cancellation, nor can we see the second question.
                await anyio.sleep(3)
            else:
                await until(lambda: len(link.questions) == 2, "the new server asks")
                expect(link.questions[0].cancelled, "the question of the dead server is still open")
            link.questions[0].answer("late")
            await until(lambda: len(link.questions) == 2, "the new server asks")
            link.questions[1].answer("right")
        expect_interrupted(self, answers[0])

    async def is_served(self, link: Link) -> None:
        uri = "demo://resource/dynamic/text/1"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The modern era has another way, and says so.
            await link.session.subscribe_resource(uri)
        await self.hears_an_update(link, uri)

    async def a_subscription_outlives_its_server(self, link: Link) -> None:
        await self.is_served(link)
        killed = await link.kill()
        await until(lambda: not killed.alive(), "the server is dead")
        link.updated.clear()
        await self.hears_an_update(link, "demo://resource/dynamic/text/1")

    async def hears_an_update(self, link: Link, uri: str) -> None:
        # This turns updates on, one at once and then every 5 s, for whom is subscribed; and off again.
        started = await link.call("toggle-subscriber-updates", {})
        expect_right(started, started.text.startswith("Started"))
        try:
            await until(lambda: bool(link.updated), "the update is heard", seconds=4)
        finally:
            # An SDK 1.x that gets one more while it closes fails.
            stopped = await link.call("toggle-subscriber-updates", {})
        expect_right(stopped, stopped.text.startswith("Stopped"))
        expect(link.updated == [uri], f"heard {link.updated}")


class EverythingByNpx(Everything):
    """As most people start it. The process that we start is not the server, but its grandparent."""

    name = "everything-npx"
    death = "exited with code 137"  # So npm tells of a child that SIGKILL ended.

    def steps(self) -> list[Step]:
        return [
            ("answers a call", self.read),
            ("killed between calls", self.killed_between_calls),
            ("its npm killed between calls", self.npm_killed_between_calls),
            ("killed during a call", self.killed_during_a_call),
            ("works after that", self.read),
            ("Regrow itself killed", self.regrow_killed),
        ]

    def bare_steps(self) -> list[Step]:
        return [("answers a call", self.read), ("its death ends the session", self.death_ends_the_session)]

    async def regrow_killed(self, link: Link) -> None:
        there = link.place.processes()
        regrow = next(process for process in descendants() if process in there)
        regrow.signal(SIGKILL)
        left = await anyio.to_thread.run_sync(wait_until_gone, there, 5.0)
        expect(not left, f"still there: {describe(left)}")

    async def npm_killed_between_calls(self, link: Link) -> None:
        server = await link.place.server()
        npm = next(process for process in link.place.processes() if process.command()[0].startswith("npm exec"))
        npm.signal(SIGKILL)
        await until(lambda: not server.alive(), "the server is gone with the npm that had started it", seconds=5)
        await self.read(link)


class StoppedThenKilled(Server):
    """A server too quick to be caught in a call: it is stopped first, so the call waits unread. That can be proven, and so the call is sent again."""

    async def write(self, link: Link) -> None:
        """Calls a tool and checks that it ran exactly once."""
        raise NotImplementedError

    async def killed_during_a_call(self, link: Link) -> None:
        server = await link.place.server()
        server.signal(SIGSTOP)
        await until(server.stopped, "the server is stopped")
        async with anyio.create_task_group() as group:
            group.start_soon(self.write, link)
            await until(lambda: unread(server) > 0, "the call has reached the server's pipe")
            await link.kill()


class Filesystem(StoppedThenKilled):
    name = "filesystem"
    tool = "edit_file"

    def prepare(self, place: Place) -> None:
        (place.work / "file.txt").write_text("one\n")

    async def read(self, link: Link) -> None:
        path = link.place.work / "file.txt"
        expect_text(await link.call("read_text_file", {"path": str(path)}), path.read_text())

    async def write(self, link: Link) -> None:
        # A second run would not find "one" and fail.
        path = link.place.work / "file.txt"
        edit = {"oldText": "one", "newText": "two"}
        answer = await link.call("edit_file", {"path": str(path), "edits": [edit]})
        expect_right(answer, "+two" in answer.text)
        expect(path.read_text() == "two\n", "the file was not edited")


class Memory(StoppedThenKilled):
    name = "memory"
    tool = "create_entities"

    async def read(self, link: Link) -> None:
        answer = await link.call("read_graph", {})
        expect_right(answer, "entities" in answer.text)

    async def write(self, link: Link) -> None:
        # It answers with what it created: after a second run, nothing.
        entity = {"name": "regrow", "entityType": "engine", "observations": []}
        answer = await link.call("create_entities", {"entities": [entity]})
        expect_right(answer, "regrow" in answer.text)


class Time(StoppedThenKilled):
    name = "time"
    tool = "get_current_time"
    modern = True

    async def read(self, link: Link) -> None:
        answer = await link.call("get_current_time", {"timezone": "UTC"})
        expect_right(answer, json_of(answer).get("timezone") == "UTC")

    async def write(self, link: Link) -> None:
        await self.read(link)

    def steps(self) -> list[Step]:
        return [*super().steps(), ("stopped before the close", self.stopped)]

    async def stopped(self, link: Link) -> None:
        server = await link.place.server()
        server.signal(SIGSTOP)
        await until(server.stopped, "the server is stopped")


class Git(Server):
    name = "git"
    tool = "git_commit"
    modern = True

    def prepare(self, place: Place) -> None:
        repository = place.work / "repository"
        self.git(place, "init", "--quiet", str(repository))
        for key, value in {"user.name": "Peer", "user.email": "peer@example.com"}.items():
            self.git(place, "-C", str(repository), "config", key, value)
        self.git(place, "-C", str(repository), "commit", "--quiet", "--allow-empty", "--message", "first")
        (repository / "file.txt").write_text("one\n")
        self.git(place, "-C", str(repository), "add", "file.txt")
        hook = repository / ".git/hooks/pre-commit"
        hook.write_text(f"#!/bin/sh\necho ran >>'{place.work}/hook'\nif [ -e '{place.work}/slow' ]; then exec sleep 31; fi\n")
        hook.chmod(0o755)

    def git(self, place: Place, *arguments: str) -> str:
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, env=env).stdout

    def subjects(self, place: Place) -> list[str]:
        return self.git(place, "-C", str(place.work / "repository"), "log", "--format=%s").split()

    def runs(self, place: Place) -> int:
        path = place.work / "hook"
        return len(path.read_text().splitlines()) if path.exists() else 0

    async def read(self, link: Link) -> None:
        answer = await link.call("git_log", {"repo_path": str(link.place.work / "repository")})
        expect_right(answer, "first" in answer.text)

    async def commit(self, link: Link, message: str) -> Answer:
        return await link.call("git_commit", {"repo_path": str(link.place.work / "repository"), "message": message})

    async def killed_during_a_call(self, link: Link) -> None:
        place = link.place
        answers: list[Answer] = []
        ended = 0.0

        async def call() -> None:
            nonlocal ended
            answers.append(await self.commit(link, "interrupted"))
            ended = time.monotonic()

        (place.work / "slow").touch()
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: self.runs(place) == 1, "the commit runs its hook")
            killed = time.monotonic()
            await link.kill()
        expect_interrupted(self, answers[0])
        expect_in_time(ended - killed)
        (place.work / "slow").unlink()

        await self.read(link)
        expect(self.runs(place) == 1, f"the commit ran {self.runs(place)} times")
        expect(self.subjects(place).count("interrupted") <= 1, "it was committed twice")
        hooks = [process for process in place.processes() if process.command() == ["sleep", "31"]]
        expect(not hooks, "the hook of the dead server still runs beside the new one")

        answer = await self.commit(link, "repeated")
        expect_right(answer, "committed successfully" in answer.text)
        expect(self.runs(place) == 2, f"the hook ran {self.runs(place)} times for two commits")
        expect(self.subjects(place) == ["repeated", "first"], f"the log is {self.subjects(place)}")


class Announcing(Server):
    name = "announcing"
    tool = "announce"
    modern = True

    async def read(self, link: Link) -> None:
        expect_text(await link.call("announce", {}), "announced")

    def steps(self) -> list[Step]:
        listens = ("listens through a death", self.listens_through_a_death)
        steps: list[Step] = [
            ("answers a call", self.read),
            ("killed during a call", self.killed_during_a_call),
            ("no change is announced", self.no_change_is_announced),
            ("starts again with other tools", self.starts_again_with_other_tools),
        ]
        return [listens, *steps] if self.is_modern else steps

    def bare_steps(self) -> list[Step]:
        death = ("its death ends the session", self.death_ends_the_session)
        return [*([("listens", self.listens)] if self.is_modern else []), ("answers a call", self.read), death]

    def prepare(self, place: Place) -> None:
        self.is_modern = place.options.mode == "auto"

    async def listens(self, link: Link) -> None:
        async with self.subscription(link) as subscription:
            await self.hears_an_update(link, subscription)

    async def listens_through_a_death(self, link: Link) -> None:
        async with self.subscription(link) as subscription:
            await self.hears_an_update(link, subscription)
            killed = await link.kill()
            await until(lambda: not killed.alive(), "the server is dead")
            await self.hears_an_update(link, subscription)
        expect(link.updated == ["note://today"] * 2, f"two updates, and the client was told {link.updated}")

    def subscription(self, link: Link) -> Any:
        return link.session.listen(tools_list_changed=True, resource_subscriptions=["note://today"])

    async def hears_an_update(self, link: Link, subscription: Any) -> None:
        await self.read(link)
        with anyio.fail_after(5 + SLACK):
            event = await anext(subscription)
        expect(getattr(event, "uri", None) == "note://today", f"heard {event}")

    async def starts_again_with_other_tools(self, link: Link) -> None:
        async with self.subscription(link) if self.is_modern else nullcontext():
            (link.place.work / "more").touch()
            await link.kill()
            await until(lambda: bool(link.list_changed), "the client is told")
            expect("more" in await link.tools(), "the new tool is not listed")
            await self.read(link)
            told = ["notifications/tools/list_changed"]
            expect(link.list_changed == told, f"one change, and the client was told {link.list_changed}")

    def runs(self, place: Place) -> int:
        return len((place.work / "count").read_text().splitlines())

    async def killed_during_a_call(self, link: Link) -> None:
        answers: list[Answer] = []
        running = anyio.Event()
        ended = 0.0

        async def call() -> None:
            nonlocal ended
            answers.append(await link.call("work", {"seconds": 30}, running.set))
            ended = time.monotonic()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await running.wait()
            killed = time.monotonic()
            await link.kill()
        expect_interrupted(self, answers[0])
        expect_in_time(ended - killed)
        expect_text(await link.call("work", {"seconds": 0}), "worked")
        expect(self.runs(link.place) == 2, f"two calls ran {self.runs(link.place)} times")


class Impatient(Server):
    """It dies of the question which era it speaks."""

    name = "impatient"
    tool = "echo"

    async def read(self, link: Link) -> None:
        expect_text(await link.call("echo", {"message": "hello"}), "hello")

    def steps(self) -> list[Step]:
        return [("answers a call", self.read), ("killed between calls", self.killed_between_calls)]


if __name__ == "__main__":
    sys.exit(main())
