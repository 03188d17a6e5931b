// A client's session, the same for the TypeScript SDK 1.x and 2.x. As python_sdk.py.

import { createRequire } from "node:module";
import path from "node:path";
import { CASE_LIMIT } from "./cases.mjs";
import { signal } from "./processes.mjs";

export const MODERN = "2026-07-28";

export class Sdk {
  static knows(version, mode) {
    return (version === "1" && mode === "legacy") || (version === "2" && ["legacy", "auto"].includes(mode));
  }

  constructor(peers, version, mode) {
    // The packages are in the peers' folder, not beside this file.
    this.require = createRequire(path.join(peers, "node", "package.json"));
    this.version = version;
    this.mode = mode;
  }

  load(ofFirst, ofSecond) {
    return this.require(this.version === 1 ? `@modelcontextprotocol/sdk/${ofFirst}` : `@modelcontextprotocol/client${ofSecond}`);
  }

  stdio(parameters) {
    const { StdioClientTransport } = this.load("client/stdio.js", "/stdio");
    return new StdioClientTransport(parameters);
  }

  http(url) {
    const { StreamableHTTPClientTransport } = this.load("client/streamableHttp.js", "");
    return new StreamableHTTPClientTransport(new URL(url));
  }

  sse(url) {
    const { SSEClientTransport } = this.load("client/sse.js", "");
    return new SSEClientTransport(new URL(url));
  }

  /** Opens a session over this transport. A client that is asking has a user and a model to ask. */
  async connect(place, transport, asking) {
    const { Client } = this.load("client/index.js", "");
    const negotiation = this.version === 2 ? { versionNegotiation: { mode: this.mode } } : {};
    const capabilities = asking ? { elicitation: {}, sampling: {} } : {};
    const client = new Client({ name: "regrow-peers", version: "1" }, { capabilities, ...negotiation });
    const link = new Link(this, place, client);
    client.fallbackNotificationHandler = async ({ method, params }) => {
      if (method.endsWith("/list_changed")) link.listChanged.push(method);
      if (method === "notifications/resources/updated") link.updated.push(params.uri);
      if (method === "notifications/message") link.logged.push(params.data);
    };
    if (asking) this.answers(client, link);
    await client.connect(transport);
    const deliver = transport.onmessage;
    transport.onmessage = (message, extra) => {
      link.received.push(message);
      deliver(message, extra);
    };
    return link;
  }

  answers(client, link) {
    const types = this.require("@modelcontextprotocol/sdk/types.js"); // SDK 2.x takes the name of the method instead.
    const onQuestion = (_request, context) => {
      const question = new Question(this.version === 1 ? context.signal : context.mcpReq.signal);
      link.questions.push(question);
      return question.answered;
    };
    const onSample = () => ({ role: "assistant", content: { type: "text", text: "something" }, model: "none" });
    client.setRequestHandler(this.version === 1 ? types.ElicitRequestSchema : "elicitation/create", onQuestion);
    client.setRequestHandler(this.version === 1 ? types.CreateMessageRequestSchema : "sampling/createMessage", onSample);
  }
}

/** One that the server asked its user, until the test answers it. */
class Question {
  constructor(signal) {
    this.signal = signal;
    this.answered = new Promise((resolve) => {
      this.answer = (name) => resolve({ action: "accept", content: { name } });
    });
  }
}

/** A client's session, the same for both SDKs. */
class Link {
  received = []; // Every message since the connect, as it came.
  listChanged = [];
  updated = [];
  logged = [];
  questions = [];
  deaths = 0;

  constructor(sdk, place, client) {
    this.sdk = sdk;
    this.place = place;
    this.client = client;
  }

  /** The version of the protocol, where the SDK tells. */
  get version() {
    return this.sdk.version === 2 ? this.client.getNegotiatedProtocolVersion() : undefined;
  }

  async tools() {
    return (await this.client.listTools()).tools.map((tool) => tool.name);
  }

  async call(name, args, onprogress, signal) {
    const request = { name, arguments: args };
    const limits = { timeout: CASE_LIMIT, signal, ...(onprogress ? { onprogress } : {}) };
    const result = this.sdk.version === 1 ? await this.client.callTool(request, undefined, limits) : await this.client.callTool(request, limits);
    const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
    return { text: texts.join("\n"), isError: result.isError === true, meta: result._meta ?? {} };
  }

  /** Kills the server and returns without waiting for its end. */
  async kill() {
    const server = await this.place.server();
    this.deaths += 1;
    signal(server, "SIGKILL");
    return server;
  }
}
