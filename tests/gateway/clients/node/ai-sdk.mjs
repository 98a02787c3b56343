// The agent loop of the `ai` SDK over three APIs, whole and as a stream.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { SYSTEM, TOOLS } from "./toolbox.mjs";

const apiKey = "sk-local";
const openai = ({ url, fetch, headers }) => createOpenAI({ baseURL: `${url}/v1`, apiKey, fetch, headers });
const anthropic = ({ url, fetch, headers }) => createAnthropic({ baseURL: `${url}/v1`, apiKey, fetch, headers });

export const chat = (asked) => run(openai(asked).chat("gpt-4.1"), asked);
export const responses = (asked) => run(openai(asked).responses("gpt-4.1"), asked);
export const messages = (asked) => run(anthropic(asked)("claude-sonnet-4-5"), asked);

async function run(model, { question, stream, toolbox }) {
  const tools = Object.fromEntries(
    TOOLS.map(({ name, description, schema }) => [
      name,
      tool({ description, inputSchema: jsonSchema(schema), execute: (given) => toolbox.run(name, given) }),
    ]),
  );
  const request = { model, system: SYSTEM, prompt: question, tools, stopWhen: stepCountIs(60) };
  if (!stream) return (await generateText(request)).text;
  let failed;
  const result = streamText({ ...request, onError: ({ error }) => (failed ??= error) });
  await result.consumeStream();
  if (failed) throw failed;
  return result.text;
}

export function described(thrown) {
  const error = thrown.lastError ?? thrown; // after the client has sent a request again
  let type;
  try {
    type = JSON.parse(error.responseBody).error.type;
  } catch {
    type = undefined; // an answer that is no JSON has no type
  }
  return { status: error.statusCode, type, message: error.message, body: error.responseBody };
}
