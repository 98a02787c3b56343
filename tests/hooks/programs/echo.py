"""An MCP server on stdio: ``read_note`` returns its text, and ``fail`` fails."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
    for name in ("read_note", "fail")
]


def result(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        info = {"name": "echo", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = f"the note {given.get('arguments', {}).get('text')}"
        return {"content": [{"type": "text", "text": text}], "isError": given["name"] == "fail"}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result(asked["method"], asked.get("params") or {})}
            print(json.dumps(answer), flush=True)
