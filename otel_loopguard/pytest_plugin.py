"""The pytest plugin: the fixture ``loopguard``, the option ``--loopguard-fail-on`` and the marker ``loopguard``.

Every pytest run of an environment with this package imports this module, so it imports the guard only in a test that
uses it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.telemetry.shown_calls import ShownCall
    from otel_loopguard.testing.recording import Recording

_OPTION = "--loopguard-fail-on"
_HIDE = "--loopguard-hide-arguments"
_CALLS: pytest.StashKey[Counter[ShownCall]] = pytest.StashKey()
_MOST = 10
_ACTIONS = ("nudge", "reuse", "block", "conclude", "abort")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that fails tests in which an agent loops."""
    group = parser.getgroup("loopguard", "loops of agents")
    group.addoption(
        _HIDE, action="store_true", help="leave the arguments of calls out of the text of a test that fails for a loop"
    )
    group.addoption(
        _OPTION,
        choices=_ACTIONS,
        help="guard each test, and fail it if a tool call gets this action or a stronger one; "
        "a call that the policy would only observe counts as what its limits demand",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"loopguard(fail_on=ACTION): guard this test with {_OPTION}=ACTION; None: loops are allowed here",
    )


@pytest.fixture
def loopguard(request: pytest.FixtureRequest) -> Iterator[Recording]:
    """Switch the guard on for a test, with the policy of the environment, and record calls and trips."""
    from otel_loopguard.testing.recording import guarded  # noqa: PLC0415 - imports the OpenTelemetry SDK

    with guarded() as recording:
        if recording.runtime is not None and not request.config.getoption(_HIDE):
            calls: Counter[ShownCall] = Counter()
            request.node.stash[_CALLS] = calls
            recording.runtime.providers.events.show = lambda call: calls.update([call])
        yield recording


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End the run at a marker with a mistake: it must not be a test that cannot fail."""
    for item in items:
        for marker in item.iter_markers("loopguard"):
            mistake = _mistake(marker)
            if mistake:
                raise pytest.UsageError(f"{item.nodeid}: {mistake}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Add the fixture ``loopguard`` to a test that a loop may fail, before its other fixtures."""
    names = getattr(item, "fixturenames", None)  # items of other plugins have no fixtures
    if names is not None and _limit(item) is not None and "loopguard" not in names:
        names.insert(0, "loopguard")


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a test that has passed, if an agent looped in it. A test that failed does not reach this hook."""
    limit = _limit(item)
    recording = getattr(item, "funcargs", {}).get("loopguard")
    if limit is not None and recording is not None:
        if recording.runtime is not None and str(recording.runtime.guard.policy.action) == "off":
            pytest.fail(
                f"{_OPTION}={limit} cannot find a loop: the action of the policy is off. Remove it from "
                "OTEL_PYTHON_LOOPGUARD_ACTION or from the policy file, or use observe, which refuses nothing.",
                pytrace=False,
            )
        loops = _loops(recording, limit)
        if loops:
            loops += _calls(item.stash.get(_CALLS, Counter()), limit)
            pytest.fail(f"An agent repeated itself ({_OPTION}={limit}):\n" + "\n".join(loops), pytrace=False)


def _limit(item: pytest.Item) -> str | None:
    """Return the weakest action that fails this test; None if no loop does."""
    marker = item.get_closest_marker("loopguard")
    if marker is None:
        limit: str | None = item.config.getoption(_OPTION)
        return limit
    limit = marker.kwargs.get("fail_on", "block")  # _mistake has checked it
    return limit  # noqa: RET504 - the type of the name is checked, that of the mark is Any


def _mistake(marker: pytest.Mark) -> str | None:
    """Return the mistake in a marker, with its remedy; None if there is none."""
    if marker.args:
        return f"loopguard({marker.args[0]!r}): write fail_on={marker.args[0]!r}"
    for name, value in marker.kwargs.items():
        if name != "fail_on":
            return f"loopguard({name}={value!r}): there is no {name}; write fail_on={value!r}"
        if value is not None and value not in _ACTIONS:
            from otel_loopguard.engine.policy.problems import suggestion  # noqa: PLC0415 - only where it is needed

            parts = (
                f"loopguard(fail_on={value!r}):",
                suggestion(str(value), _ACTIONS),
                f"it must be None or one of {', '.join(_ACTIONS)}",
            )
            return " ".join(filter(None, parts))
    return None


def _loops(recording: Recording, limit: str) -> list[str]:
    """Return a line for each mode that had a trip of at least this action.

    Trips are taken from the metrics, which also have those of calls without a span of ours.
    """
    from otel_loopguard import semconv  # noqa: PLC0415 - only where it is needed
    from otel_loopguard.engine.vocabulary import Action  # noqa: PLC0415 - only where it is needed

    at_least = Action[limit.upper()]
    strong: dict[str, dict[str, int]] = {}
    for point in recording.points(semconv.METRIC_TRIPS):
        action, verdict = (point.attributes[name] for name in (semconv.ACTION, semconv.VERDICT))
        wanted = max(Action[action.upper()], Action[verdict.upper()])
        if point.value and wanted >= at_least:
            counts = strong.setdefault(point.attributes[semconv.MODE], {})
            what = f"{wanted}" if wanted == Action[action.upper()] else f"{wanted} (only {action})"
            counts[what] = counts.get(what, 0) + point.value
    tools: dict[str, set[str]] = {}
    for point in recording.points(semconv.METRIC_TOOL_TRIPS):
        tools.setdefault(point.attributes[semconv.MODE], set()).add(point.attributes[semconv.TOOL_NAME])
    return [
        f"  {mode} of {', '.join(sorted(tools.get(mode, {'?'})))}: "
        + ", ".join(f"{what} {_times(count)}" for what, count in sorted(counts.items()))
        for mode, counts in sorted(strong.items())
    ]


def _calls(calls: Counter[ShownCall], limit: str) -> list[str]:
    """Return a line for each of the most frequent calls with a trip of at least this action, with its arguments."""
    at_least = _ACTIONS.index(limit)
    strong = [(call, count) for call, count in calls.most_common() if call.verdict in _ACTIONS[at_least:]]
    more = [f"  and {len(strong) - _MOST} more calls"] if len(strong) > _MOST else []
    return [*(f"  {call}, {_times(count)}" for call, count in strong[:_MOST]), *more]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
