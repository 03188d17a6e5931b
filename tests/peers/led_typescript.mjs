// The client of the TypeScript SDK 1.x or 2.x, led by a driver (led.py): led_typescript.mjs --peers FOLDER --sdk 1|2 [--mode legacy|auto] URL | -- COMMAND...

import readline from "node:readline";
import { parseArgs } from "node:util";
import { Sdk } from "./typescript_sdk.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { peers: { type: "string" }, sdk: { type: "string" }, mode: { type: "string", default: "legacy" } },
});
const sdk = new Sdk(options.peers, Number(options.sdk), options.mode);
const link = await sdk.connect(undefined, transport(positionals), false);
link.received = { push() {} }; // Nobody looks, and it would grow.
tell({ connected: link.version ?? "" });

const pending = new Set();
for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const obeyed = obey(request).then(() => pending.delete(obeyed));
  pending.add(obeyed);
}
await Promise.all(pending);
await link.client.close();

function transport([target, ...args]) {
  if (target.startsWith("http:")) return sdk.http(target);
  return sdk.stdio({ command: target, args, env: process.env, stderr: "inherit" });
}

async function obey(request) {
  try {
    tell({ id: request.id, ...(await answered(request)) });
  } catch (error) {
    tell({ id: request.id, threw: `${error.name}: ${error.message}` });
  }
}

async function answered(request) {
  if (request.list) return { tools: await tools() };
  return link.call(request.call, request.arguments);
}

/** All pages. SDK 2.x walks through them itself. */
async function tools() {
  const names = [];
  let cursor;
  do {
    const page = await link.client.listTools(cursor === undefined ? undefined : { cursor });
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return names;
}

function tell(message) {
  console.log(JSON.stringify(message));
}
