"""Compares what the suite saw through Regrow with what it saw straight: compare.py RESULTS [PARTIAL_WAY...]

RESULTS/REVISION/WAY holds what the suite wrote, the way `straight` among them. No check may be worse through Regrow and none may be missing. Of a
partial way, only the scenarios that ran are compared. RESULTS/worse gets a line for each scenario that is worse: REVISION WAY SCENARIO.
"""

import json
import sys
from pathlib import Path

RANKS = {"SUCCESS": 0, "INFO": 0, "SKIPPED": 1, "WARNING": 2, "FAILURE": 3}
MISSING = ("missing", "")
Results = dict[tuple[str, str, str], tuple[str, str]]


def results(folder: Path) -> Results:
    """By scenario, id and name of a check: its worst status, and what was said of it."""
    found: Results = {}
    for file in folder.glob("server-*/checks.json"):
        # server-SCENARIO-TIME, the time as 2026-07-28T10-00-00-000Z.
        scenario = file.parent.name.removeprefix("server-")[:-25]
        for check in json.loads(file.read_text()):
            key = (scenario, check["id"], check["name"])
            seen = (check["status"], check.get("errorMessage") or "")
            if key not in found or RANKS[seen[0]] > RANKS[found[key][0]]:
                found[key] = seen
    return found


def worse(straight: Results, through: Results, is_partial: bool) -> dict[str, str]:
    """By scenario and id: what has become of the checks that are worse."""
    ran = {scenario for scenario, _, _ in through}
    found = {}
    for key in sorted(straight.keys() | through.keys()):
        (before, _), (after, message) = straight.get(key, MISSING), through.get(key, MISSING)
        is_compared = key[0] in ran or not is_partial
        if is_compared and RANKS.get(after, 3) > RANKS.get(before, 0):
            found[f"{key[0]} {key[1]}"] = f"{before} -> {after} {message}".rstrip()
    return found


def main(folder: Path, partial: list[str]) -> int:
    failed = False
    scenarios = set()
    for way in sorted(folder.glob("*/*")):
        revision, name = way.parent.name, way.name
        through = results(way)
        found = worse(results(way.parent / "straight"), through, name in partial)
        for check, change in found.items():
            print("FAILED", revision, name, f"{check}: {change}")
            scenarios.add(f"{revision} {name} {check.split()[0]}\n")
        passing = sum(status == "SUCCESS" for status, _ in through.values())
        is_bad = not through or bool(found)
        failed |= is_bad
        verdict = f"{passing} checks pass, {len(found)} are worse than straight"
        print("FAILED" if is_bad else "ok", revision, f"{name}: {verdict}")
    (folder / "worse").write_text("".join(sorted(scenarios)))
    return int(failed)


sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
