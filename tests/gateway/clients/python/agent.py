"""Agents over ``openai``, as its documentation writes them. They know nothing of the guard.

    python agent.py URL[,URL...] < jobs

Each line is a job: {"agent": "openai.chat", "stream": false, "question": "...", "headers": {}}. Four run at once, and
each prints a line of JSON when it ends. The requests of one conversation go to the addresses in turn.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
from openai import OpenAI

SYSTEM = "You work with the files of a project."
MODEL = "gpt-4.1"
AT_ONCE = 4
URLS = [httpx.URL(url) for url in sys.argv[1].split(",")]


class Toolbox:
    """A folder of files, a search and a job, and a list of what was run."""

    def __init__(self):
        self.runs = []
        self._files = {f"{name}.txt": f"This is file {name}.\nIts owner is Ada." for name in "abcdefgh"}
        self._progress = 0

    def run(self, name, given):
        """Run a tool."""
        self.runs.append(name)
        return getattr(self, name)(**given)

    def read_file(self, path):
        """Read a file of the project."""
        return self._files.get(path, f"There is no file {path}.")

    def write_file(self, path, text):
        """Write a file of the project."""
        self._files[path] = text
        return f"{len(text)} characters were written."

    def search(self, query):
        """Search the files of the project for a text."""
        return "a.txt, b.txt"

    def job_status(self, job):
        """Ask how far a job is."""
        self._progress += 7
        return f"Job {job}: {self._progress} % done."


def tool(name, *arguments):
    """The name, description and JSON schema of a tool."""
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in arguments}, "required": arguments}
    description = getattr(Toolbox, name).__doc__
    return {"name": name, "description": description, "parameters": {**schema, "additionalProperties": False}}


TOOLS = [
    tool("read_file", "path"), tool("write_file", "path", "text"), tool("search", "query"), tool("job_status", "job"),
]  # fmt: skip


def chat(client, question, stream, toolbox):
    """Chat completions."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    request = {"model": MODEL, "messages": messages, "tools": [{"type": "function", "function": one} for one in TOOLS]}
    while True:
        if stream:
            with client.chat.completions.stream(**request) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**request).choices[0].message
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = toolbox.run(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def responses(client, question, stream, toolbox):
    """Responses, whose history is kept by the provider."""
    tools = [{"type": "function", "strict": True, **one} for one in TOOLS]
    request = {"input": question}
    while True:
        response = client.responses.create(model=MODEL, instructions=SYSTEM, tools=tools, stream=stream, **request)
        if stream:
            *_, last = response
            response = last.response
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        results = [(call.call_id, toolbox.run(call.name, json.loads(call.arguments))) for call in calls]
        outputs = [{"type": "function_call_output", "call_id": one, "output": text} for one, text in results]
        request = {"previous_response_id": response.id, "input": outputs}


ERROR = {"status": "status_code", "type": "type", "message": "message"}
AGENTS = {"openai.chat": chat, "openai.responses": responses}


def converse(job):
    """Run a conversation."""
    toolbox = Toolbox()
    ended = {**job, "requests": 0, "runs": toolbox.runs, "answer": "", "error": None}

    def counted(request):
        """Count a request that leaves, and send it to the next address."""
        ended["requests"] += 1
        url = URLS[ended["requests"] % len(URLS)]
        request.url = request.url.copy_with(host=url.host, port=url.port)

    http = httpx.Client(event_hooks={"request": [counted]}, timeout=60)
    client = OpenAI(
        base_url="http://localhost/v1", api_key="sk-local", default_headers=job["headers"], http_client=http
    )
    try:
        ended["answer"] = AGENTS[job["agent"]](client, job["question"], job["stream"], toolbox)
    except Exception as error:
        known = {name: getattr(error, attribute, None) for name, attribute in ERROR.items()}
        ended["error"] = {"kind": type(error).__name__, **known, "body": json.dumps(getattr(error, "body", None))}
    return ended


jobs = [json.loads(line) for line in sys.stdin]
with ThreadPoolExecutor(AT_ONCE) as threads:
    for ended in threads.map(converse, jobs):
        print(json.dumps(ended), flush=True)
