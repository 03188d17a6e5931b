// Runs the clients of the TypeScript SDK, 1.x or 2.x, against real servers through Regrow, and kills the servers under them.
//
// typescript_client.mjs REGROW|--bare [--sdk 1|2] [--mode legacy|auto] [--server NAME]... [--peers FOLDER]
// Each case prints `ok NAME` or `FAILED NAME: reason`. The cases are those of python_client.py.

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { expect, expectInTime, expectInterrupted, expectRight, expectText, inFlight, linesOf, Report, seconds, until, WrongAnswer } from "./cases.mjs";
import { alive, command, describe, marked, signal, stopped, unread } from "./processes.mjs";
import { MODERN, Sdk } from "./typescript_sdk.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));

const EXIT_WITHIN = 3900; // SDKs close, wait 2 s for a call that is still open, send SIGTERM, and after 4 s SIGKILL: it never comes to that.

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    bare: { type: "boolean", default: false },
    sdk: { type: "string", default: "1" },
    mode: { type: "string", default: "legacy" },
    server: { type: "string", multiple: true },
    peers: { type: "string", default: path.join(HERE, "../../.peers") },
  },
});
const [regrow] = positionals;
const peers = path.resolve(options.peers);
if (positionals.length !== (options.bare ? 0 : 1) || !Sdk.knows(options.sdk, options.mode)) {
  console.error("typescript_client.mjs REGROW|--bare [--sdk 1|2] [--mode legacy|auto] [--server NAME]... [--peers FOLDER]");
  process.exit(64);
}

const sdk = new Sdk(peers, Number(options.sdk), options.mode);

// One life of a connection: connect, what the server's steps do to it, close.

async function live(report, server) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "regrow-peers-"));
  const place = new Place(server.name, work);
  try {
    server.prepare(place);
    const steps = options.bare ? server.bareSteps() : server.steps();
    let link;
    const connected = await report.case(`${server.name}: connects`, async () => {
      link = await connect(place, server.asking);
      await server.checkConnected(link);
    });
    for (const [name, step] of steps) {
      await report.case(`${server.name}: ${name}`, async () => {
        expect(connected, "not reached: no connection");
        await step(link);
      });
    }
    await report.case(`${server.name}: closes`, async () => {
      expect(connected, "not reached: no connection");
      await checkClose(link);
    });
  } finally {
    await place.endAll();
    fs.rmSync(work, { recursive: true, force: true });
  }
}

async function checkClose(link) {
  const there = link.place.processes();
  const started = performance.now();
  await link.client.close();
  const took = performance.now() - started;
  // The SDK waits for its child; whoever else there is ends with it.
  await until(() => !there.some(alive), "all are gone", 1000).catch(() => {});
  const left = there.some(alive) ? there.filter(alive) : link.place.processes();
  expect(left.length === 0, `still there after the close: ${describe(left)}`);
  expect(took < EXIT_WITHIN, `closing took ${seconds(took)}`);
}

function connect(place, asking) {
  const [program, ...args] = place.command();
  return sdk.connect(place, sdk.stdio({ command: program, args, env: place.env(), stderr: place.log() }), asking);
}

/** Where one life happens: a folder, the commands, and the processes that belong to it. */
class Place {
  marker = `regrow-peers-${randomUUID()}`;

  constructor(name, work) {
    this.name = name;
    this.work = work;
  }

  file(name) {
    return path.join(this.work, name);
  }

  entry() {
    let text = fs.readFileSync(path.join(HERE, "servers.json"), "utf8");
    for (const [word, folder] of Object.entries({ peers, work: this.work, here: HERE })) text = text.replaceAll(`{${word}}`, folder);
    return JSON.parse(text)[this.name];
  }

  command() {
    const server = this.entry().command;
    return options.bare ? server : [regrow, "wrap", "--name", this.name, "--", ...server];
  }

  env() {
    return { REGROW_PEERS_MARKER: this.marker, ...this.entry().env };
  }

  log() {
    const folder = path.join(peers, "log");
    fs.mkdirSync(folder, { recursive: true });
    return fs.openSync(path.join(folder, `ts${sdk.version}-${options.mode}-${this.name}.log`), "w");
  }

  processes() {
    return marked(this.marker);
  }

  /** The server's process: the one that has the server's command line, and not ours with that in its tail. */
  async server() {
    const entry = this.entry();
    const wanted = JSON.stringify(entry.process ?? entry.command);
    let found = [];
    await until(() => {
      found = this.processes().filter((process) => JSON.stringify(command(process)) === wanted);
      return found.length > 0;
    }, "there is a server");
    expect(found.length === 1, `more than one server: ${describe(found)}`);
    return found[0];
  }

  /** After a failure nobody stays. Only what was started here, and is still below us, is signalled. */
  async endAll() {
    for (const process of this.processes()) {
      try {
        signal(process, "SIGKILL");
      } catch {
        continue; // No longer ours.
      }
    }
  }
}

// The servers, and what is done to each.

class Server {
  modern = false; // Whether it answers `server/discover`.
  asking = false; // Whether its client lets itself be asked.
  death = "killed by SIGKILL"; // What Regrow sees of it.

  /** What the server needs to find when it starts. */
  prepare() {}

  steps() {
    return [
      ["answers a call", (link) => this.read(link)],
      ["killed between calls", (link) => this.killedBetweenCalls(link)],
      ["killed just before a call", (link) => this.killedJustBeforeACall(link)],
      ["killed during a call", (link) => this.killedDuringACall(link)],
      ["works after that", (link) => this.read(link)],
      ["no change is announced", (link) => this.noChangeIsAnnounced(link)],
    ];
  }

  bareSteps() {
    return [["answers a call", (link) => this.read(link)]];
  }

  async checkConnected(link) {
    if (sdk.version === 2) {
      const version = link.client.getNegotiatedProtocolVersion();
      const modern = options.mode === "auto" && this.modern;
      expect((version === MODERN) === modern, `speaks ${version}`);
    }
    const tools = await link.tools();
    expect(tools.includes(this.tool), `no tool ${this.tool} among ${tools.sort()}`);
  }

  async killedBetweenCalls(link) {
    link.listChanged.length = 0;
    link.deaths = 0;
    const killed = await link.kill();
    await until(() => !alive(killed), "the server is dead");
    await this.read(link);
  }

  async killedJustBeforeACall(link) {
    await link.kill();
    try {
      await this.read(link);
    } catch (wrong) {
      if (!(wrong instanceof WrongAnswer)) throw wrong;
      // In the moment of its death the server may still take the call out of the pipe. Then nobody can know.
      expectInterrupted(this, wrong.answer);
      await this.read(link);
    }
  }

  async noChangeIsAnnounced(link) {
    // Not even by everything, which itself says after every handshake that its tools changed.
    expect(link.listChanged.length === 0, `${link.deaths} deaths, and the client was told ${link.listChanged}`);
  }

  async deathEndsTheSession(link) {
    await link.kill();
    const answered = await this.read(link).then(() => true, () => false);
    expect(!answered, "the call was answered");
  }
}

class Everything extends Server {
  name = "everything";
  tool = "trigger-long-running-operation";

  async read(link) {
    expectText(await link.call("echo", { message: "hello" }), "Echo: hello");
  }

  steps() {
    const steps = super.steps();
    const progress = ["progress comes before the answer", (link) => this.progressComesBeforeTheAnswer(link)];
    const ten = ["killed during ten calls", (link) => this.killedDuringTenCalls(link)];
    const open = ["a call is left open", (link) => this.aCallIsLeftOpen(link)];
    return [steps[0], progress, ...steps.slice(1, 4), ten, ...steps.slice(4), open];
  }

  bareSteps() {
    return [...super.bareSteps(), ["progress comes before the answer", (link) => this.progressComesBeforeTheAnswer(link)]];
  }

  async aCallIsLeftOpen(link) {
    inFlight(link.call(this.tool, { duration: 30, steps: 1 })); // The close that follows ends it.
    await this.read(link);
  }

  async progressComesBeforeTheAnswer(link) {
    link.received.length = 0;
    const answer = await link.call(this.tool, { duration: 1, steps: 4 }, () => {});
    // Not counted by the callback: these SDKs lose a progress that they read together with its answer.
    const seen = link.received.findIndex((message) => "result" in message);
    const progress = link.received.slice(0, seen).filter((message) => message.method === "notifications/progress");
    expect(progress.length === 4, `${progress.length} of 4 signs of progress before the answer`);
    expectText(answer, "Long running operation completed. Duration: 1 seconds, Steps: 4.");
  }

  async killedDuringACall(link) {
    await this.killedDuring(link, 1);
  }

  async killedDuringTenCalls(link) {
    await this.killedDuring(link, 10);
    await this.read(link);
  }

  async killedDuring(link, count) {
    const calls = Array.from({ length: count }, () => {
      const call = { progress: 0 };
      call.ends = inFlight(link.call(this.tool, { duration: 30, steps: 120 }, () => (call.progress += 1)));
      return call;
    });
    await until(() => calls.every((call) => call.progress >= 2), "each call shows progress");
    const killed = performance.now();
    await link.kill();
    for (const call of calls) {
      const { answer, at } = await call.ends;
      expectInterrupted(this, answer);
      expectInTime(at - killed);
    }
  }
}

/** The same server, with a client that lets itself be asked and that subscribes. */
class EverythingAsking extends Server {
  name = "everything-asking";
  tool = "trigger-elicitation-request";
  asking = true;

  steps() {
    return [
      ["a question ends with the server that asked it", (link) => this.aQuestionEndsWithItsServer(link)],
      ["a subscription outlives its server", (link) => this.aSubscriptionOutlivesItsServer(link)],
    ];
  }

  bareSteps() {
    return [
      ["a question is answered", (link) => this.aQuestionIsAnswered(link)],
      ["a subscription is served", (link) => this.isServed(link)],
    ];
  }

  async aQuestionIsAnswered(link) {
    const asked = this.ask(link, "right");
    await until(() => link.questions.length === 1, "the server asks");
    link.questions[0].answer("right");
    await asked;
  }

  async ask(link, name) {
    const answer = await link.call(this.tool, {});
    expectRight(answer, answer.text.includes(`Name: ${name}`));
  }

  async aQuestionEndsWithItsServer(link) {
    const lost = inFlight(link.call(this.tool, {}));
    await until(() => link.questions.length === 1, "the server asks");
    const killed = await link.kill();
    await until(() => !alive(killed), "the server is dead");
    // The new server numbers its questions from the start again, so a late answer to the old question fits the new one.
    const asked = inFlight(this.ask(link, "right"));
    await until(() => link.questions.length === 2, "the new server asks");
    expect(link.questions[0].signal.aborted, "the question of the dead server is still open");
    link.questions[0].answer("late");
    link.questions[1].answer("right");
    await asked;
    expectInterrupted(this, (await lost).answer);
  }

  async isServed(link) {
    const uri = "demo://resource/dynamic/text/1";
    await link.client.subscribeResource({ uri });
    await this.hearsAnUpdate(link, uri);
  }

  async aSubscriptionOutlivesItsServer(link) {
    await this.isServed(link);
    const killed = await link.kill();
    await until(() => !alive(killed), "the server is dead");
    link.updated.length = 0;
    await this.hearsAnUpdate(link, "demo://resource/dynamic/text/1");
  }

  async hearsAnUpdate(link, uri) {
    // This turns updates on, one at once and then every 5 s, for whom is subscribed; and off again.
    const started = await link.call("toggle-subscriber-updates", {});
    expectRight(started, started.text.startsWith("Started"));
    await until(() => link.updated.length > 0, "the update is heard", 4000);
    const ended = await link.call("toggle-subscriber-updates", {});
    expectRight(ended, ended.text.startsWith("Stopped"));
    expect(link.updated.join() === uri, `heard ${link.updated}`);
  }
}

/** As most people start it. The process that we start is not the server, but its grandparent. */
class EverythingByNpx extends Everything {
  name = "everything-npx";
  death = "exited with code 137"; // So npm tells of a child that SIGKILL ended.

  steps() {
    return [
      ["answers a call", (link) => this.read(link)],
      ["killed between calls", (link) => this.killedBetweenCalls(link)],
      ["its npm killed between calls", (link) => this.npmKilledBetweenCalls(link)],
      ["killed during a call", (link) => this.killedDuringACall(link)],
      ["works after that", (link) => this.read(link)],
      ["Regrow itself killed", (link) => this.regrowKilled(link)],
    ];
  }

  bareSteps() {
    return [
      ["answers a call", (link) => this.read(link)],
      ["its death ends the session", (link) => this.deathEndsTheSession(link)],
    ];
  }

  async regrowKilled(link) {
    const there = link.place.processes();
    signal(there.find((known) => known.parent === process.pid), "SIGKILL");
    await until(() => !there.some(alive), "all are gone", 5000).catch(() => {});
    const left = there.filter(alive);
    expect(left.length === 0, `still there: ${describe(left)}`);
  }

  async npmKilledBetweenCalls(link) {
    const server = await link.place.server();
    signal(link.place.processes().find((process) => command(process)[0].startsWith("npm exec")), "SIGKILL");
    await until(() => !alive(server), "the server is gone with the npm that had started it", 5000);
    await this.read(link);
  }
}

/** A server too quick to be caught in a call: it is stopped first, so the call waits unread. That can be proven, and so the call is sent again. */
class StoppedThenKilled extends Server {
  async killedDuringACall(link) {
    const server = await link.place.server();
    signal(server, "SIGSTOP");
    await until(() => stopped(server), "the server is stopped");
    const written = inFlight(this.write(link));
    await until(() => unread(server) > 0, "the call has reached the server's pipe");
    await link.kill();
    await written;
  }
}

class Filesystem extends StoppedThenKilled {
  name = "filesystem";
  tool = "edit_file";

  prepare(place) {
    fs.writeFileSync(place.file("file.txt"), "one\n");
  }

  async read(link) {
    const file = link.place.file("file.txt");
    expectText(await link.call("read_text_file", { path: file }), fs.readFileSync(file, "utf8"));
  }

  async write(link) {
    // A second run would not find "one" and fail.
    const file = link.place.file("file.txt");
    const answer = await link.call("edit_file", { path: file, edits: [{ oldText: "one", newText: "two" }] });
    expectRight(answer, answer.text.includes("+two"));
    expect(fs.readFileSync(file, "utf8") === "two\n", "the file was not edited");
  }
}

class Memory extends StoppedThenKilled {
  name = "memory";
  tool = "create_entities";

  async read(link) {
    const answer = await link.call("read_graph", {});
    expectRight(answer, answer.text.includes("entities"));
  }

  async write(link) {
    // It answers with what it created: after a second run, nothing.
    const answer = await link.call("create_entities", { entities: [{ name: "regrow", entityType: "engine", observations: [] }] });
    expectRight(answer, answer.text.includes("regrow"));
  }
}

class Time extends StoppedThenKilled {
  name = "time";
  tool = "get_current_time";
  modern = true;

  async read(link) {
    const answer = await link.call("get_current_time", { timezone: "UTC" });
    expectRight(answer, answer.text.includes('"timezone": "UTC"'));
  }

  async write(link) {
    await this.read(link);
  }

  steps() {
    return [...super.steps(), ["stopped before the close", (link) => this.stop(link)]];
  }

  async stop(link) {
    const server = await link.place.server();
    signal(server, "SIGSTOP");
    await until(() => stopped(server), "the server is stopped");
  }
}

class Git extends Server {
  name = "git";
  tool = "git_commit";
  modern = true;

  prepare(place) {
    const repository = place.file("repository");
    this.git("init", "--quiet", repository);
    this.git("-C", repository, "config", "user.name", "Peer");
    this.git("-C", repository, "config", "user.email", "peer@example.com");
    this.git("-C", repository, "commit", "--quiet", "--allow-empty", "--message", "first");
    fs.writeFileSync(path.join(repository, "file.txt"), "one\n");
    this.git("-C", repository, "add", "file.txt");
    const hook = `#!/bin/sh\necho ran >>'${place.file("hook")}'\nif [ -e '${place.file("slow")}' ]; then exec sleep 31; fi\n`;
    fs.writeFileSync(path.join(repository, ".git/hooks/pre-commit"), hook, { mode: 0o755 });
  }

  git(...args) {
    const env = { ...process.env, GIT_CONFIG_GLOBAL: os.devNull, GIT_CONFIG_NOSYSTEM: "1" };
    return execFileSync("git", args, { encoding: "utf8", env });
  }

  subjects(place) {
    return this.git("-C", place.file("repository"), "log", "--format=%s").trim().split("\n");
  }

  runs(place) {
    return linesOf(place.file("hook"));
  }

  async read(link) {
    const answer = await link.call("git_log", { repo_path: link.place.file("repository") });
    expectRight(answer, answer.text.includes("first"));
  }

  commit(link, message) {
    return link.call("git_commit", { repo_path: link.place.file("repository"), message });
  }

  async killedDuringACall(link) {
    const place = link.place;
    fs.writeFileSync(place.file("slow"), "");
    const interrupted = inFlight(this.commit(link, "interrupted"));
    await until(() => this.runs(place) === 1, "the commit runs its hook");
    const killed = performance.now();
    await link.kill();
    const { answer, at } = await interrupted;
    expectInterrupted(this, answer);
    expectInTime(at - killed);
    fs.rmSync(place.file("slow"));

    await this.read(link);
    expect(this.runs(place) === 1, `the commit ran ${this.runs(place)} times`);
    expect(this.subjects(place).filter((subject) => subject === "interrupted").length <= 1, "it was committed twice");
    const hooks = place.processes().filter((process) => command(process).join(" ") === "sleep 31");
    expect(hooks.length === 0, "the hook of the dead server still runs beside the new one");

    const repeated = await this.commit(link, "repeated");
    expectRight(repeated, repeated.text.includes("committed successfully"));
    expect(this.runs(place) === 2, `the hook ran ${this.runs(place)} times for two commits`);
    expect(this.subjects(place).join() === "repeated,first", `the log is ${this.subjects(place)}`);
  }
}

class Announcing extends Server {
  name = "announcing";
  tool = "announce";
  modern = true;

  async read(link) {
    expectText(await link.call("announce", {}), "announced");
  }

  steps() {
    const listens = [["listens through a death", (link) => this.listensThroughADeath(link)]];
    return [
      ...(options.mode === "auto" ? listens : []),
      ["answers a call", (link) => this.read(link)],
      ["killed during a call", (link) => this.killedDuringACall(link)],
      ["no change is announced", (link) => this.noChangeIsAnnounced(link)],
      ["starts again with other tools", (link) => this.startsAgainWithOtherTools(link)],
    ];
  }

  bareSteps() {
    const listens = [["listens", (link) => this.listens(link)]];
    const death = ["its death ends the session", (link) => this.deathEndsTheSession(link)];
    return [...(options.mode === "auto" ? listens : []), ...super.bareSteps(), death];
  }

  subscription(link) {
    return link.client.listen({ toolsListChanged: true, resourceSubscriptions: ["note://today"] });
  }

  async listens(link) {
    const subscription = await this.subscription(link);
    await this.hearsAnUpdate(link, 1);
    await subscription.close();
  }

  async listensThroughADeath(link) {
    const subscription = await this.subscription(link);
    let ended = "";
    subscription.closed.then((cause) => (ended = cause));
    await this.hearsAnUpdate(link, 1);
    const killed = await link.kill();
    await until(() => !alive(killed), "the server is dead");
    await this.hearsAnUpdate(link, 2);
    expect(ended === "", `the subscription ended: ${ended}`);
    await subscription.close();
  }

  async hearsAnUpdate(link, updates) {
    await this.read(link);
    await until(() => link.updated.length >= updates, "the update is heard", 5000);
    expect(link.updated.length === updates, `${updates} updates, and the client was told ${link.updated}`);
  }

  async startsAgainWithOtherTools(link) {
    const subscription = options.mode === "auto" ? await this.subscription(link) : undefined;
    fs.writeFileSync(link.place.file("more"), "");
    await link.kill();
    await until(() => link.listChanged.length > 0, "the client is told");
    const tools = await link.tools();
    expect(tools.includes("more"), "the new tool is not listed");
    await this.read(link);
    expect(link.listChanged.join() === "notifications/tools/list_changed", `one change, and the client was told ${link.listChanged}`);
    await subscription?.close();
  }

  async killedDuringACall(link) {
    let running = false;
    const interrupted = inFlight(link.call("work", { seconds: 30 }, () => (running = true)));
    await until(() => running, "the call runs");
    const killed = performance.now();
    await link.kill();
    const { answer, at } = await interrupted;
    expectInterrupted(this, answer);
    expectInTime(at - killed);
    expectText(await link.call("work", { seconds: 0 }), "worked");
    const runs = linesOf(link.place.file("count"));
    expect(runs === 2, `two calls ran ${runs} times`);
  }
}

/** It dies of the question which era it speaks. */
class Impatient extends Server {
  name = "impatient";
  tool = "echo";

  async read(link) {
    expectText(await link.call("echo", { message: "hello" }), "hello");
  }

  steps() {
    return [
      ["answers a call", (link) => this.read(link)],
      ["killed between calls", (link) => this.killedBetweenCalls(link)],
    ];
  }
}

const servers = [new Everything(), new EverythingAsking(), new Filesystem(), new Memory(), new Time(), new Git(), new Announcing()];
if (sdk.version === 1) servers.push(new EverythingByNpx());
if (options.mode === "auto") servers.push(new Impatient());

const report = new Report(`ts${sdk.version}-${options.mode}`);
for (const server of servers) {
  if (!options.server || options.server.includes(server.name)) await live(report, server);
}
process.exit(report.failures > 0 ? 1 : 0);
