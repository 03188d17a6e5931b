#!/usr/bin/env python3
"""Makes every package of a release from one binary: an archive, two npm packages and a wheel.

    assemble.py BINARY TARGET OUT

The same binary gives the same bytes, but for what npm adds. The wheel is written here, not by maturin: so all packages contain the binary that was
tested, one wheel serves glibc and musl, and nothing is compiled twice.
"""

import base64
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DESCRIPTION = "Keeps MCP connections alive: put `regrow wrap --` in front of a server's command."
LICENSES = ["LICENSE-APACHE", "LICENSE-MIT"]
EARLIEST = (1980, 1, 1, 0, 0, 0)  # No earlier date fits into a zip file.
COMPRESSION = 6  # The highest takes four times as long and saves one percent.


@dataclass(frozen=True)
class Platform:
    os: str  # as npm calls it
    cpu: str  # as npm calls it
    wheel: str
    container: str | None = None


# The Linux binaries are static, so a wheel may claim both C libraries.
PLATFORMS = {
    "x86_64-unknown-linux-musl": Platform("linux", "x64", "manylinux2014_x86_64.musllinux_1_1_x86_64", "amd64"),
    "aarch64-unknown-linux-musl": Platform("linux", "arm64", "manylinux2014_aarch64.musllinux_1_1_aarch64", "arm64"),
    "x86_64-apple-darwin": Platform("darwin", "x64", "macosx_10_12_x86_64"),
    "aarch64-apple-darwin": Platform("darwin", "arm64", "macosx_11_0_arm64"),
}

COMPLETIONS = {"bash": "regrow.bash", "zsh": "_regrow", "fish": "regrow.fish", "powershell": "regrow.ps1"}


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[2] not in PLATFORMS:
        sys.exit(f"usage: assemble.py BINARY TARGET OUT; TARGET is one of {', '.join(PLATFORMS)}")
    binary, target, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    said = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if said != f"regrow {workspace['version']}":
        sys.exit(f"{binary} is {said!r}, but Cargo.toml says {workspace['version']}; build it again")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        release = Release(binary, target, out, Path(folder), workspace)
        release.generate_extras()
        for made in [release.archive(), *release.npm(), release.wheel()]:
            print(made)
        release.container()


@dataclass(frozen=True)
class Release:
    binary: Path
    target: str
    out: Path
    work: Path
    workspace: dict

    @property
    def platform(self) -> Platform:
        return PLATFORMS[self.target]

    @property
    def version(self) -> str:
        return self.workspace["version"]

    def generate_extras(self) -> None:
        """Man pages and completion scripts, as the binary itself writes them."""
        subprocess.run([self.binary, "man", self.work / "man"], check=True)
        (self.work / "completions").mkdir()
        for shell, name in COMPLETIONS.items():
            script = subprocess.run([self.binary, "completions", shell], check=True, capture_output=True).stdout
            (self.work / "completions" / name).write_bytes(script)

    def man_pages(self) -> list[Path]:
        return sorted((self.work / "man").iterdir())

    def completions(self) -> list[Path]:
        return sorted((self.work / "completions").iterdir())

    def archive(self) -> Path:
        """For the install script, Homebrew and cargo binstall."""
        name = f"regrow-{self.version}-{self.target}"
        files = [(self.binary, "regrow")]
        files += [(ROOT / license, license) for license in LICENSES]
        files += [(HERE / "about.md", "README.md"), (HERE / "systemd/regrow.service", "systemd/regrow.service")]
        files += [(page, f"man/{page.name}") for page in self.man_pages()]
        files += [(script, f"completions/{script.name}") for script in self.completions()]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for source, path in files:
                entry = tarfile.TarInfo(f"{name}/{path}")
                entry.size = source.stat().st_size
                entry.mode = 0o755 if path == "regrow" else 0o644
                with source.open("rb") as content:
                    tar.addfile(entry, content)
        made = self.out / f"{name}.tar.gz"
        made.write_bytes(gzip.compress(packed.getvalue(), COMPRESSION, mtime=0))
        return made

    def npm(self) -> list[Path]:
        """The launcher, and the package with the binary that it depends on."""
        shared = {
            "version": self.version,
            "license": f"({self.workspace['license']})",
            "homepage": self.workspace["repository"],
            "repository": {"type": "git", "url": f"git+{self.workspace['repository']}.git"},
        }
        launcher = {
            "name": "regrow",
            "description": DESCRIPTION,
            "keywords": ["mcp", "model-context-protocol", "supervisor", "proxy", "gateway"],
            **shared,
            "bin": {"regrow": "regrow.js"},
            "man": [f"./man/{page.name}" for page in self.man_pages()],
            "files": ["regrow.js", "man", "completions", *LICENSES],
            "engines": {"node": ">=18"},
            "optionalDependencies": {npm_name(platform): self.version for platform in PLATFORMS.values()},
        }
        folder = self.npm_folder("regrow", launcher)
        shutil.copy(HERE / "npm/regrow.js", folder)
        shutil.copy(HERE / "about.md", folder / "README.md")
        shutil.copytree(self.work / "man", folder / "man")
        shutil.copytree(self.work / "completions", folder / "completions")

        name = npm_name(self.platform)
        with_binary = {
            "name": name,
            "description": f"The binary of regrow for {self.platform.os}-{self.platform.cpu}. Install the package `regrow`, not this one.",
            **shared,
            "os": [self.platform.os],
            "cpu": [self.platform.cpu],
            "files": ["bin", *LICENSES],
            "preferUnplugged": True,  # Yarn must not keep it in a zip file.
        }
        binary_folder = self.npm_folder("binary", with_binary)
        (binary_folder / "bin").mkdir()
        shutil.copy(self.binary, binary_folder / "bin/regrow")
        (binary_folder / "bin/regrow").chmod(0o755)
        (binary_folder / "README.md").write_text(f"# {name}\n\n{with_binary['description']}\n")
        return [self.npm_pack(folder), self.npm_pack(binary_folder)]

    def npm_folder(self, name: str, package: dict) -> Path:
        folder = self.work / "npm" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")
        for license in LICENSES:
            shutil.copy(ROOT / license, folder)
        return folder

    def npm_pack(self, folder: Path) -> Path:
        command = ["npm", "pack", "--json", "--ignore-scripts", "--loglevel=error", f"--pack-destination={self.out.resolve()}"]
        packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        return self.out / json.loads(packed)[0]["filename"]

    def wheel(self) -> Path:
        name = f"regrow-{python_version(self.version)}"
        tag = f"py3-none-{self.platform.wheel}"
        files = [(f"{name}.data/scripts/regrow", self.binary.read_bytes(), 0o755)]
        share = f"{name}.data/data/share"
        files += [(f"{share}/man/man1/{page.name}", page.read_bytes(), 0o644) for page in self.man_pages()]
        places = {"regrow.bash": "bash-completion/completions/regrow", "_regrow": "zsh/site-functions/_regrow", "regrow.fish": "fish/vendor_completions.d/regrow.fish"}
        files += [(f"{share}/{places[script.name]}", script.read_bytes(), 0o644) for script in self.completions() if script.name in places]
        info = f"{name}.dist-info"
        files += [(f"{info}/licenses/{license}", (ROOT / license).read_bytes(), 0o644) for license in LICENSES]
        files += [(f"{info}/METADATA", self.wheel_metadata().encode(), 0o644)]
        tags = "".join(f"Tag: py3-none-{platform}\n" for platform in self.platform.wheel.split("."))
        files += [(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: regrow packaging\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644)]
        record = "".join(f"{path},sha256={wheel_hash(content)},{len(content)}\n" for path, content, _ in files)
        files += [(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644)]
        made = self.out / f"{name}-{tag}.whl"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as wheel:
            for path, content, mode in files:
                entry = zipfile.ZipInfo(path, EARLIEST)
                entry.create_system = 3  # Unix: else the mode means nothing.
                entry.external_attr = (0o100000 | mode) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                wheel.writestr(entry, content)
        return made

    def wheel_metadata(self) -> str:
        headers = [
            "Metadata-Version: 2.4",
            "Name: regrow",
            f"Version: {python_version(self.version)}",
            f"Summary: {DESCRIPTION}",
            "Keywords: mcp,model-context-protocol,supervisor,proxy,gateway",
            f"License-Expression: {self.workspace['license']}",
            *(f"License-File: {license}" for license in LICENSES),
            "Requires-Python: >=3.8",
            f"Project-URL: Repository, {self.workspace['repository']}",
            "Description-Content-Type: text/markdown",
        ]
        return "\n".join(headers) + "\n\n" + (HERE / "about.md").read_text()

    def container(self) -> None:
        """Where the container file expects the binary of each architecture."""
        if self.platform.container:
            folder = self.out / "container" / self.platform.container
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.binary, folder / "regrow")
            (folder / "regrow").chmod(0o755)


def npm_name(platform: Platform) -> str:
    return f"@regrow/{platform.os}-{platform.cpu}"


def python_version(version: str) -> str:
    """Python writes 1.0.0-rc.1 as 1.0.0rc1."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?", version)
    if not match:
        sys.exit(f"version {version} has no form that PyPI accepts; write 1.2.3 or 1.2.3-alpha.1, -beta.1, -rc.1")
    number, stage, count = match.groups()
    return number + ({"alpha": "a", "beta": "b", "rc": "rc"}[stage] + count if stage else "")


def wheel_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
