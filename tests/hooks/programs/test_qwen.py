"""Qwen Code's events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.hooks.judge import Judge
from otel_loopguard.testing import guarded
from tests.hooks.asking import ASKERS

if TYPE_CHECKING:
    from typing import Any


class Repeating(ASKERS["qwen"]):  # type: ignore[misc, valid-type]  # an asker that is chosen by name
    """Sends the event of the user's message before each request, without another message."""

    def call(self, *args: Any, **more: Any) -> Any:
        """Make a call."""
        self.ask(self.prompted, {"prompt": ""})
        return super().call(*args, **more)


def test_the_event_of_the_prompt_before_each_request_is_no_new_turn() -> None:
    """The turn is known by the id of the prompt."""
    with guarded(clock=lambda: 0.0) as recording:
        assert recording.runtime is not None
        agent = Repeating(Judge(recording.runtime), "s1")
        agent.prompt()
        assert [agent.call("read", {"path": "a"}, "text").ran for _ in range(4)] == [True, True, False, False]
