// Runs the clients of the TypeScript SDK, 1.x or 2.x, against real remote servers through `regrow wrap URL`, and restarts the servers under them.
//
// typescript_http.mjs REGROW|--bare [--sdk 1|2] [--mode legacy|auto] [--server NAME]... [--peers FOLDER]
// Each case prints `ok NAME` or `FAILED NAME: reason`. The cases are those of python_http.py, save for what the Python clients have seen already.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { expect, expectInTime, expectInterrupted, expectRight, expectText, inFlight, linesOf, Report, seconds, SLACK, until, WrongAnswer } from "./cases.mjs";
import { alive, describe, marked, signal } from "./processes.mjs";
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
  console.error("typescript_http.mjs REGROW|--bare [--sdk 1|2] [--mode legacy|auto] [--server NAME]... [--peers FOLDER]");
  process.exit(64);
}
const sdk = new Sdk(peers, Number(options.sdk), options.mode);

// One life of a connection: the server starts, the client connects, what the steps do to it, close.

async function live(report, server) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "regrow-peers-"));
  const place = new Place(server, work);
  const steps = [...server.steps(), ...(options.bare ? [] : server.restarts())];
  let link;
  try {
    const connected = await report.case(`${server.name}: connects`, async () => {
      await place.start();
      link = await sdk.connect(place, place.transport(), true);
      await server.checkConnected(link);
    });
    for (const [name, step] of [...steps, ["closes", checkClose]]) {
      await report.case(`${server.name}: ${name}`, async () => {
        expect(connected, "not reached: no connection");
        await step(link);
      });
    }
  } finally {
    await place.kill();
    for (const left of marked(place.marker)) signal(left, "SIGKILL");
    fs.rmSync(work, { recursive: true, force: true });
  }
}

async function checkClose(link) {
  const there = marked(link.place.marker);
  const started = performance.now();
  await link.client.close();
  const took = performance.now() - started;
  await until(() => !there.some(alive), "all are gone", 1000).catch(() => {});
  const left = there.some(alive) ? there.filter(alive) : marked(link.place.marker);
  expect(left.length === 0, `still there after the close: ${describe(left)}`);
  expect(took < EXIT_WITHIN, `closing took ${seconds(took)}`);
}

/** Where one life happens: a folder, the port, the server that listens on it, and Regrow in front of it. */
class Place {
  marker = `regrow-peers-${randomUUID()}`;
  starts = 0;

  constructor(kind, work) {
    this.kind = kind;
    this.work = work;
  }

  get url() {
    return `http://127.0.0.1:${this.port}${this.kind.path}`;
  }

  transport() {
    if (options.bare) return this.kind.path === "/sse" ? sdk.sse(this.url) : sdk.http(this.url);
    const args = ["wrap", "--name", this.kind.name, this.url];
    // Regrow remembers the era of a URL, and the next server on this port is another.
    // Without patience a call says at once that its server is down, which is what these cases are about.
    const env = { REGROW_PEERS_MARKER: this.marker, XDG_CACHE_HOME: path.join(this.work, "cache"), REGROW_PATIENCE: "none" };
    return sdk.stdio({ command: regrow, args, env, stderr: this.log("") });
  }

  log(suffix) {
    const folder = path.join(peers, "log");
    fs.mkdirSync(folder, { recursive: true });
    return fs.openSync(path.join(folder, `http-ts${sdk.version}-${options.mode}-${this.kind.name}${suffix}.log`), "w");
  }

  /** Starts the server, and returns when it takes connections. */
  async start() {
    this.port ??= await freePort();
    this.starts += 1;
    const [program, ...args] = this.kind.command(this.work, this.port);
    const log = this.log(`-server-${this.starts}`);
    this.process = spawn(program, args, { env: { ...process.env, PORT: String(this.port) }, stdio: ["ignore", log, log] });
    fs.closeSync(log);
    this.ended = once(this.process, "exit");
    const deadline = performance.now() + 20000 + SLACK;
    while (!(await listens(this.port))) {
      expect(this.process.exitCode === null && performance.now() < deadline, "the server does not start");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Kills the server, as a crash does; returns when it is gone. */
  async kill() {
    if (!this.process) return;
    this.process.kill("SIGKILL");
    await this.ended;
    this.process = undefined;
  }

  async restart() {
    await this.kill();
    await this.start();
  }

  lines(name) {
    return linesOf(path.join(this.work, name));
  }
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function listens(port) {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

// The servers, and what is done to each.

class Server {
  path = "/mcp";
  modern = false; // Whether it speaks the modern era,
  legacy = true; // and whether the legacy one.
  death = "may have run"; // How its end looks from here differs with the moment.

  async checkConnected(link) {
    if (sdk.version === 2) {
      // Regrow serves whichever era its client asks for, whatever the server's.
      const modern = options.mode === "auto" && (this.modern || !options.bare);
      expect((link.version === MODERN) === modern, `speaks ${link.version}`);
    }
    expect((await link.tools()).length > 0, "no tools");
  }

  /** Announcements of this resource, in the way of the client's era, until the function that it returns is called. */
  async subscribe(link, uri) {
    if (link.version === MODERN) {
      const subscription = await link.client.listen({ toolsListChanged: true, ...(uri ? { resourceSubscriptions: [uri] } : {}) });
      return () => subscription.close();
    }
    if (uri) await link.client.subscribeResource({ uri });
    return async () => uri && (await link.client.unsubscribeResource({ uri }));
  }

  async ask(link, tool, right) {
    const before = link.questions.length;
    const asked = inFlight(link.call(tool, {}));
    await until(() => link.questions.length > before, "the server asks");
    link.questions.at(-1).answer("Ann");
    const { answer } = await asked;
    expectRight(answer, answer.text.includes(right));
  }

  async restartedBetweenCalls(link) {
    link.listChanged.length = 0;
    await link.place.restart();
    await this.read(link);
  }

  async aCallWhileItIsDown(link) {
    await link.place.kill();
    const started = performance.now();
    const told = await this.read(link).then(() => undefined, (wrong) => wrong);
    expect(told instanceof WrongAnswer && told.answer.text.includes("did not run"), `told ${told?.message}`);
    expectInTime(performance.now() - started);
    await link.place.start();
    await new Promise((resolve) => setTimeout(resolve, 1000)); // So often it is tried at most, after it has failed too often.
    await this.read(link);
  }

  async noChangeIsAnnounced(link) {
    expect(link.listChanged.length === 0, `${link.place.starts} starts, and the client was told ${link.listChanged}`);
  }
}

/** npm's server of everything, with sessions; it answers 400 to a session it does not know. */
class Everything extends Server {
  name = "everything-http";
  transport = "streamableHttp";
  uri = "demo://resource/dynamic/text/1";

  command() {
    return ["node", path.join(peers, "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), this.transport];
  }

  steps() {
    return [
      ["answers a call", (link) => this.read(link)],
      ["progress comes before the answer", (link) => this.progressComesBeforeTheAnswer(link)],
      ["reads a resource and a prompt", (link) => this.readsAResourceAndAPrompt(link)],
      ["asks its user", (link) => this.asksItsUser(link)],
      ["asks its model", (link) => this.asksItsModel(link)],
      ["announces an update", (link) => this.announcesAnUpdate(link)],
    ];
  }

  restarts() {
    return [
      ["restarted between calls", (link) => this.restartedBetweenCalls(link)],
      ["asks its user after that", (link) => this.asksItsUser(link)],
      ["no change is announced", (link) => this.noChangeIsAnnounced(link)],
      ["killed during ten calls", (link) => this.killedDuringTenCalls(link)],
      ["a call while it is down", (link) => this.aCallWhileItIsDown(link)],
      ["a subscription outlives it", (link) => this.aSubscriptionOutlivesIt(link)],
    ];
  }

  async read(link) {
    expectText(await link.call("echo", { message: "hello" }), "Echo: hello");
  }

  async progressComesBeforeTheAnswer(link) {
    link.received.length = 0;
    const answer = await link.call("trigger-long-running-operation", { duration: 1, steps: 4 }, () => {});
    // Not counted by the callback: these SDKs lose a progress that they read together with its answer.
    const seen = link.received.findIndex((message) => "result" in message);
    const progress = link.received.slice(0, seen).filter((message) => message.method === "notifications/progress");
    expect(progress.length === 4, `${progress.length} of 4 signs of progress before the answer`);
    expectText(answer, "Long running operation completed. Duration: 1 seconds, Steps: 4.");
  }

  async readsAResourceAndAPrompt(link) {
    const { contents } = await link.client.readResource({ uri: this.uri });
    expect(contents[0].text.includes("Resource 1"), `read ${JSON.stringify(contents)}`);
    const { messages } = await link.client.getPrompt({ name: "args-prompt", arguments: { city: "Bern" } });
    expect(messages[0].content.text.includes("Bern"), `got ${JSON.stringify(messages)}`);
  }

  async asksItsUser(link) {
    await this.ask(link, "trigger-elicitation-request", "Name: Ann");
  }

  async asksItsModel(link) {
    const answer = await link.call("trigger-sampling-request", { prompt: "hello" });
    expectRight(answer, answer.text.includes("something"));
  }

  async announcesAnUpdate(link) {
    const end = await this.subscribe(link, this.uri);
    await this.hearsAnUpdate(link);
    await end();
  }

  async aSubscriptionOutlivesIt(link) {
    const end = await this.subscribe(link, this.uri);
    await link.place.restart();
    await this.hearsAnUpdate(link);
    await end();
  }

  async hearsAnUpdate(link) {
    // This turns updates on, one at once and then every 5 s, for whom is subscribed; and off again.
    link.updated.length = 0;
    const started = await link.call("toggle-subscriber-updates", {});
    expectRight(started, started.text.startsWith("Started"));
    await until(() => link.updated.length > 0, "the update is heard", 4000);
    await link.call("toggle-subscriber-updates", {});
    expect(link.updated.join() === this.uri, `heard ${link.updated}`);
  }

  async killedDuringTenCalls(link) {
    const calls = Array.from({ length: 10 }, () => {
      const call = { progress: 0 };
      call.ends = inFlight(link.call("trigger-long-running-operation", { duration: 30, steps: 120 }, () => (call.progress += 1)));
      return call;
    });
    await until(() => calls.every((call) => call.progress >= 2), "each call shows progress");
    const killed = performance.now();
    await link.place.kill();
    for (const call of calls) {
      const { answer, at } = await call.ends;
      expectInterrupted(this, answer);
      expectInTime(at - killed);
    }
    await link.place.start();
    await this.read(link);
  }
}

/** The same over the transport of 2024-11-05: one stream from the server, one POST for each message to it. */
class EverythingSse extends Everything {
  name = "everything-sse";
  path = "/sse";
  transport = "sse";
}

/** A server of ours on the Python SDK 2.x, which counts what it does. */
class Remote extends Server {
  name = "remote";
  modern = true;
  script = "remote_server.py";
  python = "mcp2";
  flags = [];
  streams = true; // Whether it says anything before its answers.
  cancels = true; // Whether it hears that a call is cancelled.
  asks = true;

  command(work, port) {
    return [path.join(peers, this.python, "bin/python"), path.join(HERE, this.script), work, String(port), ...this.flags];
  }

  steps() {
    const steps = [
      ["answers a call", (link) => this.read(link)],
      ["reads a resource and a prompt", (link) => this.readsAResourceAndAPrompt(link)],
    ];
    if (this.cancels) steps.push(["a call is cancelled", (link) => this.aCallIsCancelled(link)]);
    // In the legacy era, whoever asks needs a stream.
    if (this.asks && (this.streams || options.mode !== "legacy")) {
      steps.push(["asks its user", (link) => this.ask(link, "ask", "hello Ann")], ["asks its model", (link) => this.asksItsModel(link)]);
    }
    if (this.announces()) steps.push(["announces an update", (link) => this.announcesAnUpdate(link)]);
    return steps;
  }

  restarts() {
    const outlives = ["a subscription outlives it", (link) => this.aSubscriptionOutlivesIt(link)];
    return [
      ["restarted between calls", (link) => this.restartedBetweenCalls(link)],
      ["killed during a call", (link) => this.killedDuringACall(link)],
      ["a call while it is down", (link) => this.aCallWhileItIsDown(link)],
      ["no change is announced", (link) => this.noChangeIsAnnounced(link)],
      ["starts again with other tools", (link) => this.startsAgainWithOtherTools(link)],
      ...(this.announces() ? [outlives] : []),
    ];
  }

  /** In the legacy era this SDK has no subscriptions. Where there is no such era, Regrow makes them from those of the modern one. */
  announces() {
    return this.modern && (options.mode !== "legacy" || !this.legacy);
  }

  async read(link) {
    const runs = link.place.lines("count");
    expectText(await link.call("work", { seconds: 0 }), "worked");
    const more = link.place.lines("count") - runs;
    expect(more === 1, `one call ran ${more} times`);
  }

  async readsAResourceAndAPrompt(link) {
    const { contents } = await link.client.readResource({ uri: "note://today" });
    expect(contents[0].text === "a fine day", `read ${JSON.stringify(contents)}`);
    const { messages } = await link.client.getPrompt({ name: "greet", arguments: { name: "Ann" } });
    expect(messages[0].content.text === "Greet Ann.", `got ${JSON.stringify(messages)}`);
  }

  async asksItsModel(link) {
    expectText(await link.call("sample", {}), "it said something");
  }

  async aCallIsCancelled(link) {
    const [runs, cancelled] = [link.place.lines("count"), link.place.lines("cancelled")];
    const abort = new AbortController();
    inFlight(link.call("work", { seconds: 30 }, undefined, abort.signal));
    await until(() => link.place.lines("count") > runs, "the call runs");
    abort.abort();
    await until(() => link.place.lines("cancelled") > cancelled, "the server hears of it", 4000);
    await this.read(link);
  }

  async announcesAnUpdate(link) {
    link.updated.length = 0;
    const end = await this.subscribe(link, "note://today");
    await this.announce(link);
    await end();
  }

  async announce(link) {
    expectText(await link.call("announce", {}), "announced");
    await until(() => link.updated.length > 0, "the update is heard", 4000);
    expect(link.updated.join() === "note://today", `heard ${link.updated}`);
  }

  async killedDuringACall(link) {
    const runs = link.place.lines("count");
    const interrupted = inFlight(link.call("work", { seconds: 30 }));
    await until(() => link.place.lines("count") > runs, "the call runs");
    const killed = performance.now();
    await link.place.kill();
    const { answer, at } = await interrupted;
    expectInterrupted(this, answer);
    expectInTime(at - killed);
    await link.place.start();
    await this.read(link);
    const more = link.place.lines("count") - runs;
    expect(more === 2, `two calls ran ${more} times`);
  }

  async startsAgainWithOtherTools(link) {
    expect(!(await link.tools()).includes("more"), "the new tool is there already");
    const end = await this.subscribe(link, undefined);
    fs.writeFileSync(path.join(link.place.work, "more"), "");
    await link.place.restart();
    await this.read(link);
    await until(() => link.listChanged.length > 0, "the client is told");
    expect((await link.tools()).includes("more"), "the new tool is not listed");
    expect(link.listChanged.join() === "notifications/tools/list_changed", `one change, and the client was told ${link.listChanged}`);
    await end();
  }

  async aSubscriptionOutlivesIt(link) {
    const end = await this.subscribe(link, "note://today");
    await link.place.restart();
    link.updated.length = 0;
    await this.announce(link);
    await end();
  }
}

/** The same without the legacy era. */
class RemoteModern extends Remote {
  name = "remote-modern";
  legacy = false;
  flags = ["--modern"];
}

/** The same on the Python SDK 1.x. */
class RemoteLegacy extends Remote {
  name = "remote-legacy";
  modern = false;
  script = "remote_legacy_server.py";
  python = "mcp1";
}

/** It gives no sessions: each request is served by a server of its own, so it can ask nothing. */
class RemoteLegacyStateless extends RemoteLegacy {
  name = "remote-legacy-stateless";
  flags = ["--stateless"];
  cancels = false;
  asks = false;
}

const report = new Report(`ts${sdk.version}-${options.mode} http`);
for (const server of [new Everything(), new EverythingSse(), new Remote(), new RemoteModern(), new RemoteLegacy(), new RemoteLegacyStateless()]) {
  if (!options.server || options.server.includes(server.name)) await live(report, server);
}
process.exit(report.failures > 0 ? 1 : 0);
