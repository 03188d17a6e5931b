"""Compares what the suite saw through Regrow with what it saw straight: compare.py RESULTS EXPECTED

RESULTS/REVISION/WAY holds what the suite wrote, the way `straight` among them. Of the scenarios that ran, no check may be worse through Regrow
and none may be missing, but for those that EXPECTED lists: WAY SCENARIO CHECK on a line, each of which may be `*`. What is listed and not worse
must leave that list.
"""

import json
import sys
from fnmatch import fnmatchcase
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


def worse(straight: Results, through: Results) -> dict[str, str]:
    """By scenario and id: what has become of the checks that are worse."""
    ran = {scenario for scenario, _, _ in through}
    found = {}
    for key in sorted(straight.keys() | through.keys()):
        (before, _), (after, message) = straight.get(key, MISSING), through.get(key, MISSING)
        if key[0] in ran and RANKS.get(after, 3) > RANKS.get(before, 0):
            found[f"{key[0]} {key[1]}"] = f"{before} -> {after} {message}".rstrip()
    return found


def main(folder: Path, expected: list[str]) -> int:
    used: set[str] = set()
    failed = False
    for way in sorted(folder.glob("*/*")):
        revision, name = way.parent.name, way.name
        through = results(way)
        found = worse(results(way.parent / "straight"), through)
        is_bad = not through
        for check, change in found.items():
            fitting = [line for line in expected if fnmatchcase(f"{name} {check}", line)]
            used.update(fitting)
            is_bad |= not fitting
            print("expected" if fitting else "FAILED", revision, name, f"{check}: {change}")
        passing = sum(status == "SUCCESS" for status, _ in through.values())
        verdict = f"{passing} checks pass, {len(found)} are worse than straight"
        failed |= is_bad
        print("FAILED" if is_bad else "ok", revision, f"{name}: {verdict}")
    for line in expected:
        if line not in used:
            failed = True
            print("FAILED", f"expected to be worse and is not, take it off the list: {line}")
    return int(failed)


lines = [line.strip() for line in Path(sys.argv[2]).read_text().splitlines()]
sys.exit(main(Path(sys.argv[1]), [line for line in lines if line and not line.startswith("#")]))
