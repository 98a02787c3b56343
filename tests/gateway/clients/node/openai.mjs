// Agents over `openai`: chat completions and responses, each whole and as a stream.

import OpenAI from "openai";
import { SYSTEM, TOOLS } from "./toolbox.mjs";

const MODEL = "gpt-4.1";

const client = ({ url, fetch, headers }) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-local", fetch, defaultHeaders: headers });

export async function chat({ question, stream, toolbox, ...connection }) {
  const completions = client(connection).chat.completions;
  const tools = TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description, parameters: schema },
  }));
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: question },
  ];
  for (;;) {
    const request = { model: MODEL, messages, tools };
    const message = stream
      ? await completions.stream(request).finalMessage()
      : (await completions.create(request)).choices[0].message;
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      const content = toolbox.run(call.function.name, JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

// The history is kept by the program: it sends the items of each answer back as they are.
export async function responses({ question, stream, toolbox, ...connection }) {
  const input = [{ role: "user", content: question }];
  for (;;) {
    const response = await respond(connection, stream, { input, store: false });
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) return textOf(response);
    input.push(...response.output, ...outputs(toolbox, calls));
  }
}

// The history is kept by the provider: each request names the answer before.
export async function responsesKept({ question, stream, toolbox, ...connection }) {
  let request = { input: question };
  for (;;) {
    const response = await respond(connection, stream, request);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) return textOf(response);
    request = { previous_response_id: response.id, input: outputs(toolbox, calls) };
  }
}

async function respond(connection, stream, request) {
  const tools = TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: true,
  }));
  const whole = { model: MODEL, instructions: SYSTEM, tools, ...request };
  const { responses } = client(connection);
  if (!stream) return responses.create(whole);
  let response;
  for await (const event of await responses.create({ ...whole, stream: true })) {
    if (event.type === "response.completed") response = event.response;
  }
  return response;
}

// The whole response of a stream has no `output_text`.
const textOf = ({ output }) => output.flatMap((item) => item.content ?? []).map((part) => part.text).join("");

const outputs = (toolbox, calls) =>
  calls.map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: toolbox.run(call.name, JSON.parse(call.arguments)),
  }));

export function described(error) {
  return { status: error.status, type: error.type, message: error.message, body: JSON.stringify(error.error) };
}
