// otel-loopguard hook: asks the judge before and after each tool. `otel-loopguard hooks uninstall opencode` removes it.
import { spawn } from "node:child_process"

const SOCKET = "$SOCKET"
const START = "$START"
const MILLISECONDS = 1000 * "$SECONDS" // The time that a hook waits for the judge at most.

// Returns the answer of the judge. It is empty, and the call runs, if there is none in time.
const ask = async (event, told) => {
  try {
    const asking = { unix: SOCKET, method: "POST", body: JSON.stringify(told), signal: AbortSignal.timeout(MILLISECONDS) }
    return JSON.parse((await (await fetch(`http://judge/opencode/${event}`, asking)).text()) || "{}")
  } catch {
    return {}
  }
}

export const LoopGuard = async ({ client }) => {
  const messages = new Map() // The user's last message, by session.
  const running = new Map() // A call that fails has no "after": an event tells it.
  const place = (sessionID) => ({ sessionID, messageID: messages.get(sessionID) })
  spawn(START[0], START.slice(1), { detached: true, stdio: "ignore" }).on("error", () => {}).unref()
  return {
    "chat.message": async (_, output) => {
      messages.set(output.message.sessionID, output.message.id)
      await ask("chat.message", place(output.message.sessionID))
    },
    "tool.execute.before": async (input, output) => {
      const call = { ...place(input.sessionID), tool: input.tool, args: output.args, callID: input.callID }
      const answer = await ask("tool.execute.before", call)
      if (answer.ends) await client.session.abort({ path: { id: input.sessionID } }).catch(() => {})
      if (answer.refusal) throw new Error(answer.refusal) // The model reads it.
      running.set(input.callID, call)
    },
    "tool.execute.after": async (input, output) => {
      const call = running.get(input.callID)
      if (!call || !running.delete(input.callID)) return
      const result = { output: output.output ?? output.content, exit: output.metadata?.exit }
      const { sentence } = await ask("tool.execute.after", { ...call, ...result })
      if (!sentence) return
      if (Array.isArray(output.content)) output.content.push({ type: "text", text: sentence }) // Of an MCP server.
      else output.output += "\n" + sentence
    },
    event: async ({ event }) => {
      const { part, sessionID } = event.properties ?? {}
      if (event.type === "message.part.updated" && part?.type === "tool" && part.state.status === "error") {
        const call = running.get(part.callID)
        if (call && running.delete(part.callID)) await ask("tool.execute.failed", { ...call, error: part.state.error })
      } else if (event.type === "session.idle") {
        await ask("session.idle", place(sessionID))
      } else if (event.type === "session.deleted") {
        const { id } = event.properties.info
        await ask("session.deleted", place(id))
        messages.delete(id)
      }
    },
  }
}
