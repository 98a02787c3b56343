// Runs agents that know nothing of the guard:
//
//   node agent.mjs URL[,URL...] < jobs
//
// Each line is a job: {"agent": "openai.chat", "stream": false, "question": "...", "headers": {}}. Four run at once, and
// each prints a line of JSON when it ends. The requests of one conversation go to the addresses in turn.

import { createInterface } from "node:readline";
import * as aiSdk from "./ai-sdk.mjs";
import * as anthropic from "./anthropic.mjs";
import * as openai from "./openai.mjs";
import { Toolbox } from "./toolbox.mjs";

const modules = { "ai-sdk": aiSdk, anthropic, openai };
const urls = process.argv[2].split(",");
const AT_ONCE = 4;

async function converse(job) {
  const [module, name] = job.agent.split(".");
  const agent = modules[module];
  const toolbox = new Toolbox();
  const ended = { ...job, requests: 0, runs: toolbox.runs, answer: "", error: null };
  // Counts the requests that leave, also those that the client sends again, and sends each to the next address.
  const counted = (address, options) => {
    ended.requests += 1;
    const { pathname, search } = new URL(address);
    return fetch(urls[ended.requests % urls.length] + pathname + search, options);
  };
  try {
    ended.answer = await agent[name]({ ...job, url: urls[0], fetch: counted, toolbox });
  } catch (error) {
    ended.error = { kind: error.constructor.name, ...agent.described(error) };
  }
  console.log(JSON.stringify(ended));
}

const jobs = [];
for await (const line of createInterface({ input: process.stdin })) jobs.push(JSON.parse(line));
const worker = async () => {
  while (jobs.length) await converse(jobs.shift());
};
await Promise.all(Array.from({ length: AT_ONCE }, worker));
