#!/usr/bin/env node
// Starts the binary that npm installed for this platform, and then stays out of its way.
"use strict";

const { accessSync, constants } = require("node:fs");
const { spawn } = require("node:child_process");
const os = require("node:os");
const { isatty } = require("node:tty");

const WE_FAILED = 2;
const { optionalDependencies: packages, version } = require("./package.json");

function main() {
  const binary = find();
  const args = process.argv.slice(2);
  if (process.execve) {
    // Node 22.15 and later: the binary replaces this process, so nothing is left to forward.
    process.execve(binary, [binary, ...args], process.env);
  }
  run(binary, args);
}

function find() {
  const platform = `${process.platform}-${process.arch}`;
  const name = `@regrow/${platform}`;
  if (!(name in packages)) {
    const known = Object.keys(packages).map((known) => known.slice("@regrow/".length));
    fail(`there is no binary for ${platform}, only for ${known.join(", ")}. On Windows, use regrow inside WSL.`);
  }
  let binary;
  try {
    binary = require.resolve(`${name}/bin/regrow`);
  } catch {
    fail(
      `the package ${name} is not installed. npm leaves it out with --omit=optional or --no-optional, and when node_modules ` +
        `was copied from another platform.\nInstall it: npm install --include=optional regrow@${version}`,
    );
  }
  try {
    accessSync(binary, constants.X_OK);
  } catch (error) {
    fail(`cannot run ${binary}: ${error.code}.\nInstall it again: npm install --include=optional regrow@${version}`);
  }
  return binary;
}

function run(binary, args) {
  const child = spawn(binary, args, { stdio: "inherit" });
  // A terminal sends these to the binary, too; a second SIGINT would tell it to hurry.
  const fromTerminal = [0, 1, 2].some(isatty) ? ["SIGINT", "SIGQUIT"] : [];
  const signals = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"];
  for (const signal of signals) {
    process.on(signal, () => fromTerminal.includes(signal) || child.kill(signal));
  }
  child.on("error", (error) => fail(`cannot run ${binary}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (!signal) process.exit(code);
    signals.forEach((name) => process.removeAllListeners(name));
    process.kill(process.pid, signal);
    // Still here: node ignores this signal. Shells report one like this.
    process.exit(128 + os.constants.signals[signal]);
  });
}

function fail(message) {
  process.stderr.write(`regrow: ${message}\n`);
  process.exit(WE_FAILED);
}

main();
