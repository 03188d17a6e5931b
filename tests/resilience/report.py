"""Makes docs/resilience-report.md from the results of `regrow chaos --json`: report.py FOLDER"""

import json
import re
import sys
from pathlib import Path

GROUPS = ["Notices", "Answers", "Recovers", "Never twice", "Leaves nothing", "Tells the truth"]
MARKS = {"pass": "✓", "fail": "✗", "not applicable": "–"}
HEAD = """# Resilience report

How clients and proxies bear MCP servers that misbehave, measured by `regrow chaos` (see [chaos.md](chaos.md)) from outside: by what the
server counted, by the clock, and by the processes that were left. Made by `tests/resilience/run`; every number below was
measured on {date}, on Linux, with the pinned versions that are named.{busy}

Clients are driven by the adapters in [adapters/](../adapters), which use each framework as its documentation shows, nothing
cleverer: no reconnect that the framework does not do itself. "Recovers" therefore asks whether a call succeeds again *without help*; a
program that expects its user to connect again fails there, by design. A number is promises kept of promises judged; a
dash means that nothing could be judged.
"""
FOOT = """## What was not measured

- fastmcp 4.1.3 and 4.1.4 could not be installed: `No matching distribution found for certifi>=2026.10.19`. 4.1.2 was measured instead.
- mcp-proxy (npm) only puts servers that it starts behind HTTP; mcp-remote only reaches remote servers. Each was measured in the one direction that it has.
- Proxies that listen are driven over Streamable HTTP, those on pipes over pipes. Where a deadline of calls belongs to the caller, a proxy is not judged by it.
- Servers speak the legacy era here (`refuse-discover`), the one that every client under test speaks.

Some results need a word of their own:

- Hermes agent stops calling a server for a minute after three failures in a row, and says so. The suite calls again and again while it waits, a fifth of a second apart, so it trips that
  breaker. Called only every ten seconds instead, after a SIGKILL while idle, it did not come back within 80 seconds either.
- Where NeMo Agent Toolkit and Hermes agent fail under "Never twice", they had connected again by themselves and sent the lost call once more.
- `regrow wrap` has the same deadline for calls as the clients, 5 s times the patience of the run.
- Two runs of the same program can differ in a few promises. The sums of an earlier run on a busy machine, with bounds three times as long, differ by four at most.
- The Python SDK shows no status, so whether it notices a death is not judged.

Words are looked for in errors with a wide list (such as "closed", "lost", "reset", "exit"); an error that tells the truth in other words fails wrongly. The bounds are
generous on purpose: this table says whether something happens at all, not how fast.
"""


def escape(text: str) -> str:
    """For a table; without the folders of the machine that it ran on."""
    text = without_folders(text)
    for letter in "\\|`*_[]<>&#~":
        text = text.replace(letter, "\\" + letter)
    return " ".join(text.split())


def without_folders(text: str) -> str:
    """Names of files without the folders that they are in on this machine; addresses stay."""
    return re.sub(r"(?:(?<=file://)|(?<![\w:/.]))/(?:[\w.@+-]+/)+(?=[\w.@+-])", "", text)


def score(result: dict, group: str) -> str:
    counts = result["groups"][group]
    judged = counts["pass"] + counts["fail"]
    return f"{counts['pass']} of {judged}" if judged else "–"


def summary(results: list[dict]) -> str:
    lines = [f"| | {' | '.join(GROUPS)} | all |", "|---" * (len(GROUPS) + 2) + "|"]
    for result in results:
        passed = sum(counts["pass"] for counts in result["groups"].values())
        failed = sum(counts["fail"] for counts in result["groups"].values())
        cells = [score(result, group) for group in GROUPS] + [f"**{passed} of {passed + failed}**"]
        lines.append(f"| {escape(result['name'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def worst(findings: list[dict]) -> str:
    verdicts = [finding["verdict"] for finding in findings]
    return MARKS[next((verdict for verdict in ("fail", "pass") if verdict in verdicts), "not applicable")]


def matrix(results: list[dict]) -> str:
    scenarios = list(dict.fromkeys(finding["scenario"] for result in results for finding in result["findings"]))
    numbered = {finding["scenario"]: finding["numbers"] for result in results for finding in result["findings"]}
    lines = [f"| scenario | {' | '.join(escape(result['name']) for result in results)} |", "|---" * (len(results) + 1) + "|"]
    for scenario in scenarios:
        cells = [worst([finding for finding in result["findings"] if finding["scenario"] == scenario]) for result in results]
        lines.append(f"| {scenario} ({numbered[scenario]}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(result: dict) -> str:
    failed = [finding for finding in result["findings"] if finding["verdict"] == "fail"]
    if not failed:
        return ""
    lines = [f"<details><summary>{escape(result['name'])}: {len(failed)} promises broken</summary>\n"]
    lines += [f"- {finding['scenario']}, {finding['group']}: {finding['promise']}. Seen: {escape(finding['seen'])}" for finding in failed]
    return "\n".join([*lines, "\n</details>\n"])


def own_first(result: dict) -> tuple[bool, str]:
    return not result["name"].lower().startswith("regrow"), result["name"]


def main() -> None:
    results = sorted((json.loads(path.read_text()) for path in Path(sys.argv[1]).glob("*.json")), key=own_first)
    dates = sorted(result["date"] for result in results)
    patience = max(result.get("patience", 1) for result in results)
    busy = f" The machine had much else to do, so all bounds were {patience} times as long as usual." if patience > 1 else ""
    days = dates[0][:10] if dates[0][:10] == dates[-1][:10] else f"{dates[0][:10]} to {dates[-1][:10]}"
    page = [HEAD.format(date=days, busy=busy)]
    for role, title in [("client", "Clients"), ("proxy", "Proxies")]:
        for transport, what in [("stdio", "servers that are processes"), ("http", "servers over HTTP")]:
            part = [result for result in results if result["role"] == role and result["transport"] == transport]
            if not part:
                continue
            page += [f"## {title}, {what}\n", summary(part), "\nBy scenario (✓ all promises kept, ✗ one or more broken, – not judged):\n", matrix(part), ""]
            page += [failures(result) for result in part]
    page += ["## How they were started\n"]
    page += [f"- {escape(result['name'])}, {result['role']} over {result['transport']}: `{command(result)}`" for result in results]
    page += ["", FOOT]
    print("\n".join(page).rstrip())


def command(result: dict) -> str:
    """The command without the folders of the machine that it ran on."""
    return " ".join(without_folders(word) for word in result["command"])


main()
