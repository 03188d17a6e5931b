"""Leads real clients over `regrow serve`: they list and call across twenty servers, while one server is killed each second.

Run it with the Python of `.peers/mcp2`. Each case prints `ok NAME` or `FAILED NAME: reason`. Over HTTP three clients at a time share one gateway.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from cases import Report, expect
from gateway import START_WITHIN, Gateway
from led_client import LedClient
from processes import marked
from python_sdk import MODERN
from served import twenty
from storm import Storm

HERE = Path(__file__).resolve().parent
AT_A_TIME = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regrow", help="path of the regrow binary")
    parser.add_argument("--peers", default=HERE.parent.parent / ".peers", type=Path)
    parser.add_argument("--rmcp", help="path of the client on rmcp")
    parser.add_argument("--client", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", default=random.randrange(2**32), type=int)
    options = parser.parse_args()
    options.peers = options.peers.resolve()
    print(f"serve: --seed {options.seed}", flush=True)

    def chosen(commands: dict[str, list[str]]) -> list[LedClient]:
        return [LedClient(name, commands[name]) for name in commands if not options.client or name in options.client]

    report = Report(prefix="serve")
    if http := chosen(http_clients(options)):
        anyio.run(live, report, options, "http", partial(over_http, clients=http))
    anyio.run(each_over_stdio, report, options, chosen(stdio_clients(options)))
    return 1 if report.failures else 0


def http_clients(options: argparse.Namespace) -> dict[str, list[str]]:
    """How each is started; the address of the gateway comes last. Neighbours share a round."""
    every = {
        "mcp1": python(options, "mcp1", "led_python.py"),
        "typescript1": typescript(options, "1"),
        "mcp2-auto": python(options, "mcp2", "led_python.py", "--mode", "auto"),
        "typescript2-auto": typescript(options, "2", "--mode", "auto"),
        "fastmcp-auto": python(options, "fastmcp", "led_fastmcp.py"),
        "mcp2-legacy": python(options, "mcp2", "led_python.py"),
        "typescript2-legacy": typescript(options, "2"),
    }
    if options.rmcp:
        every |= {"rmcp-legacy": [options.rmcp], "rmcp-auto": [options.rmcp, "--mode", "auto"]}
    return every


def stdio_clients(options: argparse.Namespace) -> dict[str, list[str]]:
    return {
        "mcp2-auto-stdio": python(options, "mcp2", "led_python.py", "--mode", "auto", "--"),
        "typescript2-stdio": typescript(options, "2", "--"),
    }


def python(options: argparse.Namespace, sdk: str, *command: str) -> list[str]:
    script, *arguments = command
    return [str(options.peers / sdk / "bin/python"), str(HERE / script), *arguments]


def typescript(options: argparse.Namespace, sdk: str, *arguments: str) -> list[str]:
    return ["node", str(HERE / "led_typescript.mjs"), "--peers", str(options.peers), "--sdk", sdk, *arguments]


class Life:
    """One life of a gateway."""

    def __init__(self, report: Report, options: argparse.Namespace, name: str, work: Path) -> None:
        self.report, self.name = report, name
        self.logs = options.peers / "log"
        self.logs.mkdir(exist_ok=True)
        self.gateway = Gateway(options.regrow, twenty(options.peers, work), work, self.log(name))
        self.storm = Storm(self.gateway, random.Random(options.seed))

    def log(self, name: str) -> Path:
        return self.logs / f"serve-{name}.log"

    def case(self, client: str, name: str) -> Any:
        return self.report.case(f"{client}: {name}", limit=START_WITHIN + 10)


async def live(report: Report, options: argparse.Namespace, name: str, run: Callable[[Life], Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="regrow-peers-") as work:
        life = Life(report, options, name, Path(work))
        try:
            await run(life)
        except Exception as broken:  # noqa: BLE001 - it broke around us, and that is said
            report.failed(f"{name}: goes on to the end", broken)
        finally:
            life.gateway.end_all()


async def over_http(life: Life, clients: list[LedClient]) -> None:
    async with life.case(life.name, "connects"):  # Without it there is nothing to go on with.
        address = await life.gateway.start()
    for first in range(0, len(clients), AT_A_TIME):
        await visit(life, clients[first : first + AT_A_TIME], [address], dict(os.environ))
    await check_storm(life, clients)
    async with life.case(life.name, "ends on SIGTERM, with nobody left"):
        await life.gateway.terminate()


async def each_over_stdio(report: Report, options: argparse.Namespace, clients: list[LedClient]) -> None:
    """Each has a gateway of its own."""
    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(live, report, options, client.name, partial(over_stdio, client=client))


async def over_stdio(life: Life, client: LedClient) -> None:
    there = []
    await visit(life, [client], life.gateway.stdio_command(), life.gateway.env, lambda: there.extend(marked(life.gateway.marker)))
    await check_storm(life, [client])
    async with life.case(life.name, "ends with its client, with nobody left"):
        life.gateway.expect_gone(there)


async def visit(
    life: Life, clients: list[LedClient], target: list[str], env: dict[str, str], at_end: Callable[[], None] = lambda: None
) -> None:
    """The whole session of these clients."""
    async with anyio.create_task_group() as group:
        connected = []
        for client in clients:
            client.command += target
            async with life.case(client.name, "connects and lists the tools of all servers"):
                await client.connect(group, life.log(client.name), env)
                modern = "-auto" in client.name
                expect(modern == (client.version == MODERN), f"speaks {client.version!r}")
                client.listed = await client.tools()
                check_list(life, client.listed)
                connected.append(client)
        if connected:
            await life.storm.rage(connected)
        for client in connected:
            await check_client(life, client)
        at_end()
        for client in clients:
            async with life.case(client.name, "closes"):
                await client.close()


def check_list(life: Life, tools: list[str]) -> None:
    servers = {tool.partition("__")[0] for tool in tools}
    expect(servers == {server.name for server in life.gateway.servers}, f"listed are {len(servers)} servers: {sorted(servers)}")
    expect(len(tools) == len(set(tools)), "a tool is listed twice")


async def check_client(life: Life, client: LedClient) -> None:
    failed = sum(ended.failed for ended in client.ended)
    async with life.case(client.name, f"{len(client.ended)} calls end in time, right, or killed and told so ({failed})"):
        expect_none([ended.problem() for ended in client.ended])
    async with life.case(client.name, f"{len(client.lost)} calls whose server is killed are told so at once"):
        expect(bool(client.lost), "there was none")
        expect_none([lost.problem() for lost in client.lost])
    async with life.case(client.name, "every server answers again"):
        answers = [await life.storm.call(client, server) for server in life.gateway.servers]
        expect_none([str(ended.answer) if ended.failed else ended.problem() for ended in answers])
    async with life.case(client.name, "the same tools are listed"):
        expect(sorted(await client.tools()) == sorted(client.listed), "they are others now")


async def check_storm(life: Life, clients: list[LedClient]) -> None:
    async with life.case(life.name, f"{life.storm.killed} kills, and nothing ran twice"):
        life.storm.check_runs(clients)


def expect_none(problems: list[str | None]) -> None:
    found = [problem for problem in problems if problem]
    expect(not found, f"{len(found)} of {len(problems)}: {'; '.join(found[:3])}")


if __name__ == "__main__":
    sys.exit(main())
