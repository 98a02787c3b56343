"""A local provider behind the proxy: it speaks the three APIs, and each conversation is scripted by its key.

A first message with ``task-looping7`` in it gets the script ``looping``. The keys of conversations differ within a
test, and a program that runs twice, to be compared, talks to two providers: their answers are equal byte by byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.models.conversation import Asked, RejectedError, Reply
from tests.models.scripts import Looping, Obedient, Step, call, written
from tests.models.server import Server

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.models.scripts import Script

READ = call("read_file", path="a.txt")
SEARCH = call("search", query="Ada")
STATUS = call("job_status", job="7")
WORK: tuple[Step, ...] = (READ, (call("read_file", path="b.txt"), SEARCH), call("write_file", path="c.txt", text="x"))
LOOKED = "I looked."
DONE = "Done."
STOPPED = "I stop here."


class Continued:
    """Makes its steps one after the other, then answers; a request that is sent again gets the same step again."""

    def __init__(self, *steps: Step, answer: str = DONE) -> None:
        self._steps = [written(step) for step in steps]
        self._answer = Reply(answer)

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request by the number of results that it carries."""
        results = len(asked.results)
        for step in self._steps if asked.may_call else ():
            if results <= 0:
                return step
            results -= len(step.calls)
        return self._answer


SCRIPTS: dict[str, Script] = {
    # The same call for ever, and an answer when the tools are withdrawn.
    "looping": Looping(READ, answer=LOOKED),
    # Ignores the sentences and the withdrawal.
    "stubborn": Looping(READ, answer=LOOKED, stubborn=True),
    # Several calls in one message, two messages in turn.
    "parallel": Looping((READ, SEARCH), (call("read_file", path="b.txt"), SEARCH), answer=LOOKED),
    # Answers when the guard speaks to it.
    "obedient": Obedient(Looping(READ), STOPPED),
    # Different useful calls, two of them in one message.
    "working": Continued(*WORK),
    # The same call again and again while its result changes.
    "polling": Continued(*[STATUS] * 12),
}
WORKING = ("working", "polling")
NAMED = re.compile(rf"task-({'|'.join(SCRIPTS)})")


def scripted(asked: Asked) -> Reply:
    """Answer by the script that the key of the conversation names."""
    found = NAMED.match(asked.key)
    if found is None:
        raise RejectedError(f"no script is named in the first message; write task- and one of {', '.join(SCRIPTS)}")
    return SCRIPTS[found[1]](asked)


def provider() -> AbstractContextManager[Server]:
    """Run the provider on a free port until the end of the block; it records every request."""
    return Server(scripted).running()
