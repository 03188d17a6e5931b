#!/bin/sh
# Installs the regrow binary of a release, after checking its SHA-256 checksum.
#
#   install.sh [--version 0.1.0] [--dir ~/.local/bin] [--from URL]
#
# --from is where releases are: a URL, or a folder. The checksum finds damaged downloads. Who built a release is a question for
# `gh attestation verify`: see docs/install.md.
set -eu

main() {
    version=latest
    folder=$HOME/.local/bin
    from=https://github.com/regrow-dev/regrow/releases
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || usage
        case $1 in
            --version) version=$2 ;;
            --dir) folder=$2 ;;
            --from) from=$2 ;;
            *) usage ;;
        esac
        shift 2
    done
    case $version in
        latest) release=$from/latest/download ;;
        *) release=$from/download/v${version#v} ;;
    esac

    target=$(target)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    fetch "$release/SHA256SUMS" "$work/SHA256SUMS"
    archive=$(sed -n "s/^[0-9a-f]\{64\}  \(regrow-[0-9A-Za-z.-]*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
    [ -n "$archive" ] || fail "the release has no archive for $target; other ways to install: https://github.com/regrow-dev/regrow"
    fetch "$release/$archive" "$work/$archive"
    expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS" | head -n 1)
    actual=$(checksum "$work/$archive")
    [ "$actual" = "$expected" ] || fail "the checksum of $archive is wrong, so nothing was installed. Try again; if it happens again, report it.
  expected $expected
  got      $actual"

    tar -xzf "$work/$archive" -C "$work"
    unpacked=$work/${archive%.tar.gz}/regrow
    "$unpacked" --version >/dev/null || fail "the binary does not run on this machine: $(uname -a)"
    mkdir -p "$folder"
    # Under another name first: a running regrow keeps its file, and an interrupted copy is never found as regrow.
    cp "$unpacked" "$folder/.regrow.new"
    chmod 755 "$folder/.regrow.new"
    mv -f "$folder/.regrow.new" "$folder/regrow"

    echo "installed $("$folder/regrow" --version) as $folder/regrow"
    case :$PATH: in
        *:"$folder":*) ;;
        *) echo "$folder is not in your PATH; add it: export PATH=\"$folder:\$PATH\"" ;;
    esac
    echo "see it: regrow demo    completions: regrow completions --help    man pages: regrow man --help"
}

# The Linux binaries are static: there is one for every C library.
target() {
    case $(uname -m) in
        x86_64 | amd64) cpu=x86_64 ;;
        aarch64 | arm64) cpu=aarch64 ;;
        *) fail "there is no binary for $(uname -m); build it: cargo install regrow-cli" ;;
    esac
    case $(uname -s) in
        Linux) echo "$cpu-unknown-linux-musl" ;;
        Darwin) echo "$cpu-apple-darwin" ;;
        *) fail "there is no binary for $(uname -s); on Windows, use WSL" ;;
    esac
}

fetch() { # URL FILE
    case $1 in
        https://*) secure='--proto =https --tlsv1.2' ;;
        http://*) secure= ;;
        *)
            cp "$1" "$2" || fail "cannot read $1"
            return
            ;;
    esac
    if command -v curl >/dev/null; then
        # shellcheck disable=SC2086 # Two options, or none.
        curl $secure --fail --silent --show-error --location --retry 3 --output "$2" "$1" || fail "cannot download $1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1" || fail "cannot download $1"
    else
        fail "curl or wget is needed; install one of them"
    fi
}

checksum() { # FILE
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail "sha256sum or shasum is needed to check the download; install coreutils"
    fi
}

usage() {
    echo "usage: install.sh [--version VERSION] [--dir FOLDER] [--from URL]" >&2
    exit 64
}

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

# At the end: a script that was cut off while it was downloaded does nothing.
main "$@"
