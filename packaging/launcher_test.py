#!/usr/bin/env python3
"""The npm launcher must not be noticed: launcher_test.py NODE LAUNCHER

A shell script stands in for the binary, so that it can end as no regrow does.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

NODE, LAUNCHER = sys.argv[1], Path(sys.argv[2])
SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]


def main() -> None:
    signal.alarm(120)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder).resolve())
        place.passes_streams_arguments_and_exit_code()
        place.passes_signals()
        place.ends_as_the_binary_ends()
        place.says_what_to_do_without_a_binary()
    print(f"ok launcher on node {subprocess.check_output([NODE, '--version'], text=True).strip()}")


class Place:
    """node_modules with the launcher, and a package for this platform."""

    def __init__(self, folder: Path) -> None:
        self.launcher = folder / "node_modules/regrow/regrow.js"
        self.launcher.parent.mkdir(parents=True)
        shutil.copy(LAUNCHER, self.launcher)
        ask = "process.stdout.write(process.platform + '-' + process.arch)"
        name = "@regrow/" + subprocess.check_output([NODE, "-e", ask], text=True)
        self.describe(name)
        self.binary = folder / "node_modules" / name / "bin/regrow"
        self.binary.parent.mkdir(parents=True)

    def describe(self, name: str) -> None:
        package = {"name": "regrow", "version": "1.2.3", "optionalDependencies": {name: "1.2.3"}}
        (self.launcher.parent / "package.json").write_text(json.dumps(package))

    def start(self, script: str, *args: str) -> subprocess.Popen:
        self.binary.write_text(f"#!/bin/sh\n{script}\n")
        self.binary.chmod(0o755)
        pipe = subprocess.PIPE
        return subprocess.Popen([NODE, self.launcher, *args], stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def passes_streams_arguments_and_exit_code(self) -> None:
        process = self.start('cat; printf "%s|" "$@"; echo oops >&2; exit 7', "wrap", "--", "a b", "")
        out, err = process.communicate("from the client\n")
        assert (process.returncode, out, err) == (7, "from the client\nwrap|--|a b||", "oops\n"), (process.returncode, out, err)

    def passes_signals(self) -> None:
        for number in SIGNALS:
            wait = f"import signal; print('ready', flush=True); print(signal.sigwait([{number.value}]).name, flush=True); exit(9)"
            block = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [{number.value}])"
            process = self.start(f'exec "{sys.executable}" -c "{block}; {wait}"')
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.stdout.readline() == number.name + "\n"
            process.communicate()
            assert process.returncode == 9, (number, process.returncode)

    def ends_as_the_binary_ends(self) -> None:
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]:
            process = self.start(f"kill -{number.value} $$; sleep 60")
            process.communicate()
            assert process.returncode == -number, (number, process.returncode)

    def says_what_to_do_without_a_binary(self) -> None:
        self.binary.unlink()
        for name, expected in [(None, "npm install --include=optional regrow@1.2.3"), ("@regrow/plan9-mips", "there is no binary for")]:
            if name:
                self.describe(name)
            process = subprocess.run([NODE, self.launcher, "demo"], capture_output=True, text=True)
            assert process.returncode == 2 and expected in process.stderr, process
            assert process.stdout == "", process


if __name__ == "__main__":
    main()
