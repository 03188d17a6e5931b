// What /proc says of the processes a driver started, and the only place that signals one of them. As processes.py.

import { execFileSync } from "node:child_process";
import fs from "node:fs";

/** All living processes under one (this one), the nearest first. A process is known by its pid and its start time. */
export function descendants(of = process.pid) {
  const every = pids().map((pid) => lookUp(pid)).filter((found) => found !== undefined);
  const found = [];
  for (let level = [of]; level.length > 0; ) {
    const below = every.filter((process) => level.includes(process.parent));
    found.push(...below);
    level = below.map((process) => process.pid);
  }
  return found;
}

/** All living processes that have the marker in their environment, and those below them. */
export function marked(marker) {
  const here = pids()
    .filter((pid) => pid !== process.pid && read(pid, "environ").includes(marker))
    .map((pid) => lookUp(pid))
    .filter((found) => found !== undefined);
  const all = [...here, ...here.flatMap((process) => descendants(process.pid))];
  return [...new Map(all.map((process) => [process.pid, process])).values()];
}

/** A zombie is not alive. */
export function alive(known) {
  return lookUp(known.pid)?.started === known.started;
}

/** Every thread of it: one that has not yet seen the signal would still take a call out of the pipe. */
export function stopped(known) {
  if (!alive(known)) return false;
  const threads = fs.readdirSync(`/proc/${known.pid}/task`);
  return threads.every((thread) => lookUp(known.pid, `task/${thread}/stat`)?.state === "T");
}

export function command(known) {
  return read(known.pid, "cmdline").split("\0").slice(0, -1);
}

export function signal(known, name) {
  if (!descendants().some((process) => process.pid === known.pid && process.started === known.started)) {
    throw new Error(`process ${known.pid} is not one that this driver started`);
  }
  process.kill(known.pid, name);
}

/** How many bytes wait in pipes for this process to read. Node cannot ask that; Python can. */
export function unread(known) {
  const script = new URL("processes.py", import.meta.url).pathname;
  return Number(execFileSync("python3", [script, String(known.pid)], { encoding: "utf8" }));
}

export function describe(processes) {
  return processes.map((process) => `${process.pid} (${command(process).join(" ")})`).join(", ");
}

function lookUp(pid, name = "stat") {
  // The name of the program stands in parentheses and may hold spaces: the fields begin after the last one.
  const stat = read(pid, name);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields.length < 20 || "ZX".includes(fields[0])) return undefined;
  return { pid, state: fields[0], parent: Number(fields[1]), started: Number(fields[19]) };
}

function read(pid, name) {
  try {
    return fs.readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return ""; // It ended meanwhile, or is not ours to read.
  }
}

function pids() {
  return fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number);
}
