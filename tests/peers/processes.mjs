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
  if (of === process.pid) for (const below of found) ours.add(`${below.pid} ${below.started}`);
  return found;
}

/** All living processes that have the marker in their environment, and those below them. */
export function marked(marker) {
  descendants();
  const here = pids()
    .filter((pid) => pid !== process.pid && read(pid, "environ").includes(marker))
    .map((pid) => lookUp(pid))
    .filter((found) => found !== undefined);
  const all = [...here, ...here.flatMap((process) => descendants(process.pid))];
  return [...new Map(all.map((process) => [process.pid, process])).values()];
}

/** A zombie is not alive; but one whose other threads still end holds its pipes open, and is. */
export function alive(known) {
  return threads(known).some((state) => !"ZX".includes(state));
}

/** Every thread of it: one that has not yet seen the signal would still take a call out of the pipe. */
export function stopped(known) {
  const states = threads(known);
  return states.length > 0 && states.every((state) => state === "T");
}

function threads(known) {
  if (statOf(known.pid)?.started !== known.started) return [];
  try {
    const names = fs.readdirSync(`/proc/${known.pid}/task`);
    return names.map((name) => statOf(known.pid, `task/${name}/stat`)?.state).filter((state) => state !== undefined);
  } catch {
    return []; // It ended meanwhile.
  }
}

export function command(known) {
  return read(known.pid, "cmdline").split("\0").slice(0, -1);
}

// Whatever was once seen below this process: an orphan is no longer, and is still ours.
const ours = new Set();

export function signal(known, name) {
  descendants();
  if (!ours.has(`${known.pid} ${known.started}`) || !alive(known)) {
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

function lookUp(pid) {
  const stat = statOf(pid);
  return stat && !"ZX".includes(stat.state) ? stat : undefined;
}

function statOf(pid, name = "stat") {
  // The name of the program stands in parentheses and may hold spaces: the fields begin after the last one.
  const stat = read(pid, name);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields.length < 20) return undefined;
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
