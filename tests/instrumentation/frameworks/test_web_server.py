"""An agent behind a web server: an aborted run is an error of that request only."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("langgraph")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from otel_loopguard import Policy
from otel_loopguard.testing import guarded
from tests.instrumentation.frameworks.langchain.test_graphs import look, script
from tests.scripted.langchain import QUESTION, prebuilt_agent

pytestmark = pytest.mark.filterwarnings("ignore")


async def stuck(request: Any) -> PlainTextResponse:
    """Run an agent that never stops by itself."""
    await prebuilt_agent(script(*["a"] * 9), [look]).ainvoke(QUESTION)
    return PlainTextResponse("never")


def stuck_sync(request: Any) -> PlainTextResponse:
    """Run the stuck agent in a worker thread."""
    prebuilt_agent(script(*["a"] * 9), [look]).invoke(QUESTION)
    return PlainTextResponse("never")


async def working(request: Any) -> PlainTextResponse:
    """Run an agent that makes progress."""
    await prebuilt_agent(script("a", "b", "c"), [look]).ainvoke(QUESTION)
    return PlainTextResponse("done")


def test_an_aborted_run_is_a_500_and_the_server_lives() -> None:
    """No ``BaseException`` leaves a run, because it would stop the server."""
    routes = [Route("/stuck", stuck), Route("/stuck-sync", stuck_sync), Route("/working", working)]
    with guarded(Policy(abort_after=1)) as recording:
        with TestClient(Starlette(routes=routes), raise_server_exceptions=False) as client:
            for _ in range(3):
                assert client.get("/stuck").status_code == 500
                assert client.get("/stuck-sync").status_code == 500
                answer = client.get("/working")
                assert (answer.status_code, answer.text) == (200, "done")
        assert recording.outcomes.count("aborted") == 6
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0
