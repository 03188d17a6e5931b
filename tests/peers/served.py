"""Twenty servers behind one `regrow serve`: what is called on each of them, and which answers are right."""

import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HOURS = 24


@dataclass(frozen=True)
class Call:
    """One call, and how its answer is known to be its own."""

    server: "Server"
    tool: str
    arguments: dict[str, Any]
    right: Callable[[str], bool]

    @property
    def name(self) -> str:
        """The tool's name among those of all servers."""
        return f"{self.server.name}__{self.tool}"


class Server:
    era = "legacy"  # Said, not found out: to ask a server for the other era costs one more start of it.

    def __init__(self, name: str, peers: Path, work: Path) -> None:
        self.name, self.peers, self.work = name, peers, work
        self.prepare()

    def prepare(self) -> None:
        """Lays out what it works on."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        return {}

    def call(self, token: str, chance: random.Random) -> Call:
        """Another one each time. The token is given out once."""
        raise NotImplementedError

    def node(self, package: str) -> list[str]:
        return ["node", str(self.peers / "node/node_modules/@modelcontextprotocol" / package / "dist/index.js")]

    def python(self, *arguments: str) -> list[str]:
        return [str(self.peers / "mcp2/bin/python"), *arguments]


class Everything(Server):
    def command(self) -> list[str]:
        return [*self.node("server-everything"), "stdio"]

    def call(self, token: str, chance: random.Random) -> Call:
        return Call(self, "echo", {"message": token}, lambda text: text == f"Echo: {token}")


class Filesystem(Server):
    def prepare(self) -> None:
        self.folder = self.work / self.name
        self.folder.mkdir()
        for number in range(10):
            (self.folder / f"{number}.txt").write_text(f"{self.name} {number}")

    def command(self) -> list[str]:
        return [*self.node("server-filesystem"), str(self.folder)]

    def call(self, token: str, chance: random.Random) -> Call:
        number = chance.randrange(10)
        path = str(self.folder / f"{number}.txt")
        return Call(self, "read_text_file", {"path": path}, lambda text: text == f"{self.name} {number}")


class Memory(Server):
    def prepare(self) -> None:
        things = [{"type": "entity", "name": f"thing-{n}", "entityType": self.name, "observations": []} for n in range(10)]
        self.file = self.work / f"{self.name}.json"
        self.file.write_text("\n".join(map(json.dumps, things)))

    def command(self) -> list[str]:
        return self.node("server-memory")

    def env(self) -> dict[str, str]:
        return {"MEMORY_FILE_PATH": str(self.file)}

    def call(self, token: str, chance: random.Random) -> Call:
        thing = f"thing-{chance.randrange(10)}"

        def right(text: str) -> bool:
            return [(found["name"], found["entityType"]) for found in json.loads(text)["entities"]] == [(thing, self.name)]

        return Call(self, "open_nodes", {"names": [thing]}, right)


class Time(Server):
    era = "auto"

    def command(self) -> list[str]:
        return self.python("-m", "mcp_server_time", "--local-timezone", "UTC")

    def call(self, token: str, chance: random.Random) -> Call:
        hour = chance.randrange(HOURS)
        # There is no summer time in either.
        arguments = {"source_timezone": "UTC", "time": f"{hour:02}:30", "target_timezone": "Asia/Tokyo"}
        return Call(self, "convert_time", arguments, lambda text: f"T{(hour + 9) % HOURS:02}:30" in text)


class Git(Server):
    era = "auto"

    def prepare(self) -> None:
        self.repository = self.work / self.name
        git = ["git", "-C", str(self.repository), "-c", "user.name=regrow", "-c", "user.email=regrow@localhost"]
        subprocess.run(["git", "init", "--quiet", str(self.repository)], check=True)
        for number in range(5):
            subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", f"{self.name} {number}"], check=True)

    def command(self) -> list[str]:
        return self.python("-m", "mcp_server_git", "--repository", str(self.repository))

    def call(self, token: str, chance: random.Random) -> Call:
        count = chance.randrange(1, 5)

        def right(text: str) -> bool:
            return [number for number in range(5) if f"{self.name} {number}" in text] == list(range(5 - count, 5))

        return Call(self, "git_log", {"repo_path": str(self.repository), "max_count": count}, right)


class Announcing(Server):
    """Its runs are counted, but not told apart."""

    era = "auto"

    def prepare(self) -> None:
        (self.work / self.name).mkdir()

    def command(self) -> list[str]:
        return self.python(str(HERE / "announcing_server.py"), str(self.work / self.name))

    def call(self, token: str, chance: random.Random) -> Call:
        return Call(self, "work", {"seconds": 0.05}, lambda text: text == "worked")

    def runs(self) -> int:
        return len(lines(self.work / self.name / "count"))


class Impatient(Server):
    era = "auto"

    def command(self) -> list[str]:
        return ["python3", str(HERE / "impatient_server.py")]

    def call(self, token: str, chance: random.Random) -> Call:
        return Call(self, "echo", {"message": token}, lambda text: text == token)


class Counting(Server):
    def prepare(self) -> None:
        self.folder = self.work / "counts"
        self.folder.mkdir(exist_ok=True)

    def command(self) -> list[str]:
        return ["python3", str(HERE / "counting_server.py"), self.name, str(self.folder)]

    def call(self, token: str, chance: random.Random) -> Call:
        return self.slow_call(token, chance.choice([0, 0, 0.1]))

    def slow_call(self, token: str, seconds: float) -> Call:
        return Call(self, "count", {"token": token, "seconds": seconds}, lambda text: text == f"{self.name} counted {token}")

    def runs(self) -> list[str]:
        """The token of each run."""
        return lines(self.folder / self.name)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def twenty(peers: Path, work: Path) -> list[Server]:
    kinds: list[tuple[type[Server], int]] = [
        (Everything, 2),
        (Filesystem, 2),
        (Memory, 2),
        (Time, 1),
        (Git, 1),
        (Announcing, 1),
        (Impatient, 1),
        (Counting, 10),
    ]
    return [kind(f"{kind.__name__.lower()}-{number}", peers, work) for kind, count in kinds for number in range(1, count + 1)]
