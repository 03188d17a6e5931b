"""Clients that call across all servers of a gateway while one server is killed each second, and what must be true of it afterwards."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from cases import ANSWER_WITHIN, expect, until
from gateway import Gateway
from led_client import Ended, LedClient
from served import Announcing, Counting, Server

KILLS = 10  # One each second, so this is how many seconds it goes on.
WORKERS = 4  # So many calls of a client are in flight.
PAUSE = 0.04  # Between two calls of a worker: servers that start again need the machine, too.
LONG = 25.0  # A call that takes as long is still running when its server is killed.


@dataclass
class Lost:
    """A call whose server was killed while it ran."""

    ended: Ended
    told_after: float

    def problem(self) -> str | None:
        fault = {name: self.ended.fault.get(name) for name in ("kind", "delivery", "signal")}
        if self.told_after > ANSWER_WITHIN:
            return f"told after {self.told_after:.2f} s: {self.ended.answer}"
        truth = {"kind": "interrupted", "delivery": "unknown", "signal": "SIGKILL"}
        return None if fault == truth else f"told {self.ended.answer}"


@dataclass
class Storm:
    """All storms over one gateway: it goes on from one to the next with other servers."""

    gateway: Gateway
    chance: random.Random
    killed: int = 0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = (f"token-{number}" for number in itertools.count())
        # In turn one that is killed during a call of its, and another.
        servers = self.chance.sample(self.gateway.servers, len(self.gateway.servers))
        counting = [server for server in servers if isinstance(server, Counting)]
        others = [server for server in servers if not isinstance(server, Counting)]
        self.victims = itertools.cycle(itertools.chain.from_iterable(zip(counting, others, strict=True)))

    async def rage(self, clients: list[LedClient]) -> None:
        over = anyio.Event()
        losers = itertools.cycle(clients)
        async with anyio.create_task_group() as group:
            for client in clients * WORKERS:
                group.start_soon(self.work, client, over)
            started = anyio.current_time()
            for turn in range(KILLS):
                await anyio.sleep_until(started + turn + 1)
                group.start_soon(self.strike, next(self.victims), losers)
            await anyio.sleep(1)
            over.set()

    async def work(self, client: LedClient, over: anyio.Event) -> None:
        while not over.is_set():
            await self.call(client, self.chance.choice(self.gateway.servers))
            await anyio.sleep(PAUSE)

    async def call(self, client: LedClient, server: Server) -> Ended:
        return await client.call(server.call(next(self.tokens), self.chance))

    async def strike(self, server: Server, losers: Iterator[LedClient]) -> None:
        try:
            if isinstance(server, Counting):
                await self.strike_during_a_call(next(losers), server)
            else:
                await self.gateway.kill(server)
            self.killed += 1
        except (AssertionError, RuntimeError) as error:
            self.problems.append(f"{server.name}: {error}")

    async def strike_during_a_call(self, client: LedClient, server: Counting) -> None:
        token = next(self.tokens)
        ended: list[tuple[Ended, float]] = []

        async def lose() -> None:
            ended.append((await client.call(server.slow_call(token, LONG)), time.monotonic()))

        async with anyio.create_task_group() as group:
            group.start_soon(lose)
            await until(lambda: token in server.runs() or bool(ended), "the call runs")
            await self.gateway.kill(server)
            killed = time.monotonic()
        client.lost.append(Lost(ended[0][0], ended[0][1] - killed))

    def check_runs(self, clients: list[LedClient]) -> None:
        """Nothing ran twice, nothing that failed as not run did, and what was answered ran."""
        expect(not self.problems, f"not as meant: {self.problems[:3]}")
        for server in self.gateway.servers:
            calls = [ended for client in clients for ended in client.ended if ended.call.server is server]
            if isinstance(server, Counting):
                runs = Counter(server.runs())
                for ended in calls:
                    count = runs[ended.call.arguments["token"]]
                    expect(count in possible_runs(ended), f"{server.name}: {count} runs of what ended as {ended.answer}")
            elif isinstance(server, Announcing):
                least, most = (sum(end(possible_runs(ended)) for ended in calls) for end in (min, max))
                expect(least <= server.runs() <= most, f"{server.name}: {server.runs()} runs, not {least} to {most}")


def possible_runs(ended: Ended) -> tuple[int, ...]:
    if not ended.failed and "text" in ended.answer:
        return (1,)
    return (0,) if ended.fault.get("delivery") == "not-sent" else (0, 1)
