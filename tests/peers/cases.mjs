// What is expected of a case, and how it is reported: for the drivers of the TypeScript SDK. As cases.py.

import fs from "node:fs";

export const SLACK = 30000; // How much longer anything may take on a machine that is busy.
export const ANSWER_WITHIN = 2000 + SLACK; // A call that lost its server is answered in this time.
export const CASE_LIMIT = 120000; // No case takes longer, on a busy machine too.

export class WrongAnswer extends Error {
  constructor(answer) {
    super(`answered ${answer.isError ? "an error: " : ""}${JSON.stringify(answer.text)}`);
    this.answer = answer;
  }
}

export function expect(truth, otherwise) {
  if (!truth) throw new Error(otherwise);
}

export function expectRight(answer, right) {
  if (answer.isError || !right) throw new WrongAnswer(answer);
}

export function expectText(answer, text) {
  expectRight(answer, answer.text === text);
}

/** A truthful end: which server, what happened, whether it may have run; for a model and for a program. */
export function expectInterrupted(server, answer) {
  expect(answer.isError, `not an error: ${JSON.stringify(answer.text)}`);
  for (const words of [`${server.name}: `, server.death, "may have run"]) {
    expect(answer.text.includes(words), `"${words}" is not in ${JSON.stringify(answer.text)}`);
  }
  const fault = answer.meta["dev.regrow/fault"];
  expect(fault?.server === server.name, `the fault in _meta is ${JSON.stringify(fault)}`);
}

export function expectInTime(took) {
  expect(took < ANSWER_WITHIN, `the answer took ${seconds(took)}`);
}

export function seconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(2)} s`;
}

export function linesOf(file) {
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").length - 1 : 0;
}

/** A call that goes on while we do something: its answer, and when it came. A failure waits for whoever awaits it. */
export function inFlight(call) {
  const ends = call.then((answer) => ({ answer, at: performance.now() }));
  ends.catch(() => {});
  return ends;
}

export async function until(isTrue, what, limit = 20000) {
  const deadline = performance.now() + limit + SLACK;
  while (!isTrue()) {
    expect(performance.now() < deadline, `waited ${seconds(limit + SLACK)} until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** One line for each case, as it ends. */
export class Report {
  failures = 0;

  constructor(prefix) {
    this.prefix = prefix;
  }

  async case(name, run) {
    let timer;
    const limit = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("took too long")), CASE_LIMIT);
    });
    try {
      await Promise.race([run(), limit]);
      console.log(`ok ${this.prefix} ${name}`);
      return true;
    } catch (error) {
      this.failures += 1;
      console.log(`FAILED ${this.prefix} ${name}: ${error.message.replaceAll(/\s+/g, " ")}`);
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}
