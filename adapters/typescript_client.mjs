// The TypeScript SDK: its Client, as its README shows. typescript_client.mjs 1|2 FOLDER_OF_PACKAGES

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { createInterface } from "node:readline";

const [major, folder] = process.argv.slice(2);
// The packages are in a folder of their own, not beside this file.
const require = createRequire(path.join(path.resolve(folder), "package.json"));
const packageName = major === "1" ? "@modelcontextprotocol/sdk" : "@modelcontextprotocol/client";
const load = (first, second) => require(packageName + (major === "1" ? first : second));
const { Client } = load("/client/index.js", "");
const { StdioClientTransport } = load("/client/stdio.js", "/stdio");
const { StreamableHTTPClientTransport } = load("/client/streamableHttp.js", "");

const url = process.env.REGROW_CHAOS_URL;
const [command, ...args] = JSON.parse(process.env.REGROW_CHAOS_COMMAND ?? "[]");
let client;
let state = "down";

const tasks = {
  async connect({ timeout_ms }) {
    client = new Client({ name: "chaos", version: "1" });
    client.onclose = () => (state = "down");
    const transport = url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport({ command, args });
    await client.connect(transport, { timeout: timeout_ms });
    state = "ready";
    return "connected";
  },
  async list() {
    return (await client.listTools()).tools.map((tool) => tool.name).join("\n");
  },
  async call({ tool, arguments: given, timeout_ms }) {
    const request = { name: tool, arguments: given };
    const limits = { timeout: timeout_ms };
    const result = major === "1" ? await client.callTool(request, undefined, limits) : await client.callTool(request, limits);
    const text = result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
    if (result.isError) throw new Error(text);
    return text;
  },
  async status() {
    return state;
  },
  async close() {
    await client?.close();
    return "closed";
  },
};

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Node searches the folders itself; the packages do not export their own package.json.
const { version } = JSON.parse(readFileSync(path.join(path.resolve(folder), "node_modules", packageName, "package.json"), "utf8"));
say({ hello: `${packageName} ${version}` });
for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  if (!task.do) continue; // The first line says where the server is, as the environment does.
  tasks[task.do](task).then(
    (text) => say({ id: task.id, ok: true, text }),
    (error) => say({ id: task.id, ok: false, error: `${error.name}: ${error.message}` }),
  );
}
await tasks.close();
