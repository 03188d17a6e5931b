"""What /proc says of the processes a driver started, and the only place that signals one of them."""

import fcntl
import os
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process. With its start time, so that a reused pid is never taken for it."""

    pid: int
    started: int

    def alive(self) -> bool:
        """A zombie is not alive; but one whose other threads still end holds its pipes open, and is."""
        return any(state not in "ZX" for state in self._threads())

    def stopped(self) -> bool:
        """Every thread of it: one that has not yet seen the signal would still take a call out of the pipe."""
        states = self._threads()
        return bool(states) and all(state == "T" for state in states)

    def _threads(self) -> list[str]:
        stat = _stat(self.pid)
        if stat is None or stat.started != self.started:
            return []
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except OSError:
            return []
        return [stat.state for thread in threads if (stat := _stat(self.pid, f"task/{thread}/stat"))]

    def command(self) -> list[str]:
        return [word.decode(errors="replace") for word in _read(self.pid, "cmdline").split(b"\0")[:-1]]

    def signal(self, number: int) -> None:
        descendants()
        if self not in _ours or not self.alive():
            raise RuntimeError(f"process {self.pid} is not one that this driver started")
        os.kill(self.pid, number)


# Whatever was once seen below this process: an orphan is no longer, and is still ours.
_ours: set["Process"] = set()


def descendants(of: int | None = None) -> list[Process]:
    """All living processes under one (this one), the nearest first."""
    children: dict[int, list[Process]] = {}
    for pid in _pids():
        if (stat := _stat(pid)) and stat.state not in "ZX":
            children.setdefault(stat.parent, []).append(Process(pid, stat.started))
    found: list[Process] = []
    level = [of or os.getpid()]
    while level:
        below = [process for parent in level for process in children.get(parent, [])]
        found += below
        level = [process.pid for process in below]
    if of is None:
        _ours.update(found)
    return found


def marked(marker: str) -> list[Process]:
    """All living processes that have the marker in their environment, whosever children they are by now."""
    descendants()
    return [
        Process(pid, stat.started)
        for pid in _pids()
        if pid != os.getpid() and marker.encode() in _read(pid, "environ")
        if (stat := _stat(pid)) and stat.state not in "ZX"
    ]


def describe(processes: list[Process]) -> str:
    return ", ".join(f"{process.pid} ({' '.join(process.command())})" for process in processes)


def wait_until_gone(processes: list[Process], seconds: float) -> list[Process]:
    """Returns those that are still there in the end."""
    deadline = time.monotonic() + seconds + 30  # On a machine that is busy.
    while (left := [process for process in processes if process.alive()]) and time.monotonic() < deadline:
        time.sleep(0.005)
    return left


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    started: int


def _stat(pid: int, name: str = "stat") -> _Stat | None:
    # The name of the program stands in parentheses and may hold spaces: the fields begin after the last one.
    fields = _read(pid, name).rpartition(b")")[2].split()
    return _Stat(fields[0].decode(), int(fields[1]), int(fields[19])) if fields else None


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # It ended meanwhile, or is not ours to read.


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def unread(process: Process) -> int:
    """How many bytes wait in pipes for this process to read."""
    total = 0
    for name in os.listdir(f"/proc/{process.pid}/fd"):
        path = f"/proc/{process.pid}/fd/{name}"
        try:
            if os.readlink(path).startswith("pipe:") and _only_reads(process.pid, name):
                total += _waiting(path)
        except OSError:
            continue  # It was closed meanwhile.
    return total


def _only_reads(pid: int, fd: str) -> bool:
    flags = next(line for line in _read(pid, f"fdinfo/{fd}").decode().splitlines() if line.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY


def _waiting(path: str) -> int:
    # A reader of our own, for an instant: what waits in a pipe is asked of a descriptor.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)
    finally:
        os.close(fd)


if __name__ == "__main__":
    # For the TypeScript driver: `processes.py PID` prints how many bytes wait for that process.
    print(unread(Process(int(sys.argv[1]), 0)))
