// An agent over `@anthropic-ai/sdk`, whole and as a stream.

import Anthropic from "@anthropic-ai/sdk";
import { SYSTEM, TOOLS } from "./toolbox.mjs";

const tools = TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));

export async function messages({ url, fetch, headers, question, stream, toolbox }) {
  const client = new Anthropic({ baseURL: url, apiKey: "sk-local", fetch, defaultHeaders: headers });
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const request = { model: "claude-sonnet-4-5", max_tokens: 1024, system: SYSTEM, messages, tools };
    const message = stream ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
    messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (!calls.length) return message.content.map((block) => block.text).join("");
    const content = calls.map(({ id, name, input }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: toolbox.run(name, input),
    }));
    messages.push({ role: "user", content });
  }
}

export function described(error) {
  return {
    status: error.status,
    type: error.error?.error?.type,
    message: error.message,
    body: JSON.stringify(error.error),
  };
}
