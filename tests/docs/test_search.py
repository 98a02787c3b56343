"""The search of the site finds the page that answers a question by words of the question.

The site searches with lunr, in the browser. Here its index is searched with lunr's port, by the rules of the theme: a
word finds all words that it begins, and a page, or a section that has all the words, counts more.
"""

from __future__ import annotations

import json
import re

import pytest
from lunr import lunr
from lunr.builder import Builder
from lunr.stop_word_filter import stop_word_filter

FIRST = 3
"""The results that a reader looks at."""
QUESTIONS = {
    "instrument in code": "how-to/start",
    "without collector": "how-to/start",
    "switch it off": "how-to/start",
    "how it ended": "how-to/tell-how-it-ended",
    "last_turn": "reference/api",
    "catch ToolLoopError": "how-to/catch-tool-loop-error",
    "ToolLoopError attributes": "how-to/catch-tool-loop-error",
    "test in CI": "how-to/test-your-agent",
    "pytest": "how-to/test-your-agent",
    "hand-written loop": "how-to/any-code",
    "unsupported framework": "how-to/any-code",
    "CrewAI": "frameworks",
    "smolagents": "frameworks",
    "what is turn": "how-to/any-code",
    "chat with many messages": "how-to/any-code",
    "MCP": "how-to/mcp",
    "run command": "how-to/run",
    "LangGraph": "how-to/langgraph",
    "OpenAI Agents": "how-to/openai-agents",
    "Pydantic AI": "how-to/pydantic-ai",
    "OpenAI client": "how-to/openai",
    "Anthropic": "how-to/anthropic",
    "Gemini": "how-to/google-genai",
    "LiteLLM": "how-to/litellm",
    "exempt a tool": "how-to/refused-too-much",
    "raise a limit": "how-to/refused-too-much",
    "false refusal": "how-to/refused-too-much",
    "refused something it should not have": "how-to/refused-too-much",
    "wrong refusal": "how-to/refused-too-much",
    "did not stop this": "how-to/not-stopped",
    "only observed": "how-to/not-stopped",
    "shadow mode": "how-to/watch-then-enforce",
    "poll": "how-to/waiting-and-batches",
    "human in the loop": "how-to/waiting-and-batches",
    "hand-off": "how-to/waiting-and-batches",
    "batch": "how-to/waiting-and-batches",
    "heartbeat": "how-to/heartbeats",
    "cron": "how-to/heartbeats",
    "FastAPI": "how-to/deploy",
    "gunicorn": "how-to/deploy",
    "Docker": "how-to/deploy",
    "Kubernetes": "how-to/deploy",
    "serverless": "how-to/deploy",
    "Lambda": "how-to/deploy",
    "Celery": "how-to/deploy",
    "Jupyter": "how-to/deploy",
    "fork": "how-to/deploy",
    "restart": "how-to/deploy",
    "several processes": "how-to/shared-store",
    "Kafka": "how-to/kafka",
    "async": "how-to/deploy",
    "Python versions": "reference/versions",
    "windows": "reference/versions",
    "macos": "reference/versions",
    "uninstall": "how-to/start",
    "llamaindex": "frameworks",
    "toolnode": "frameworks",
    "toolloop": "how-to/catch-tool-loop-error",
    "shell completion": "reference/commands",
    "supported versions": "reference/versions",
    "OpenTelemetry versions": "reference/versions",
    "upgrade": "reference/versions",
    "stability": "reference/versions",
    "LOOPGUARD_EVENTS": "reference/environment",
    "OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID": "reference/environment",
    "conversation id": "privacy",
    "privacy": "privacy",
    "performance": "performance",
    "alternatives": "comparison",
    "own detector": "add-a-detector",
    "detect another kind of loop": "add-a-detector",
}
"""What users ask on the first day, and the page with the answer."""


@pytest.fixture(scope="module")
def search(site):
    """A function that returns the pages that the site finds for words, the best first."""
    found = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    separator = re.compile(found["config"]["separator"])
    builder = Builder()
    builder.pipeline.add(stop_word_filter)
    documents = [
        ({**one, **{key: words(one[key], separator) for key in ("title", "text")}}, {"boost": one.get("boost", 1)})
        for one in found["docs"]
    ]
    index = lunr("location", [{"field_name": "title", "boost": 1000}, "text"], documents, builder=builder)

    def pages(question):
        asked = words(question, separator)
        scores = {}
        for result in index.search(" ".join(f"{word}*" for word in asked)):
            location, matched = result["ref"], result["match_data"].metadata
            complete = all(any(term.startswith(word) for term in matched) for word in asked)
            boost = ("#" not in location) + complete
            score = result["score"] * (1 + boost**2)
            page = location.partition("#")[0].strip("/")
            scores[page] = max(score, scores.get(page, 0))
        return sorted(scores, key=scores.get, reverse=True)

    return pages


def words(text, separator):
    return [word.lower() for word in separator.split(re.sub(r"<[^>]*>", " ", text)) if word]


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items())
@pytest.mark.parametrize("typed", [str, str.lower])
def test_a_question_finds_its_page(search, question, answer, typed):
    """The page with the answer is among the first results, also of a question in lower case, as most are typed."""
    assert answer in search(typed(question))[:FIRST]
