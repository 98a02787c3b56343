"""A report and live judges, for the receivers and the judge itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield

from .messages import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def kept() -> Kept:
    """The report."""
    return Kept()


@pytest.fixture
def make(kept: Kept) -> Iterator[Callable[..., LiveJudge]]:
    """Makes live judges, and closes them."""
    made: list[LiveJudge] = []

    def judge(**settings: object) -> LiveJudge:
        made.append(LiveJudge(PolicyJudge(Policy()), kept, Shield(), **settings))  # type: ignore[arg-type]
        return made[-1]

    yield judge
    kept.go_on.set()
    for one in made:
        one.close()
