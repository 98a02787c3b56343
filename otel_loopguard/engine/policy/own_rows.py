"""Check the rows of a user's own detectors as the settings of a policy are checked: by name, with the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from otel_loopguard.engine.detectors.row import Advice, OncePer, Sentences
from otel_loopguard.engine.rule import OF_EVERY_MODE, Rule
from otel_loopguard.engine.settings import SENTENCE, Setting
from otel_loopguard.engine.vocabulary import NO_LOOPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_is_name = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch


def faults(row: Any, taken: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each fault of a user's row, with the remedy. ``taken``: the modes that exist already."""
    if not (isinstance(row.mode, str) and _is_name(row.mode)):
        yield f"mode = {row.mode!r} must be a name of small letters, digits and _"
    elif row.mode in taken or row.mode in NO_LOOPS:
        yield f"there is a mode {row.mode} already; give yours another name"
    if not (callable(row.before) or callable(row.after) or callable(row.at_request)):
        yield "it has no check: before, after or both must be a function (history, record, rule) -> Trip | None"
    for name in ("before", "after", "at_request", "may_trip_from", "concerns", "declared"):
        value = getattr(row, name)
        if value is not None and not callable(value):
            yield f"{name} = {value!r} must be a function"
    for name, words in (("once_per", get_args(OncePer)), ("advice", get_args(Advice))):
        if getattr(row, name) not in words:
            yield f"{name} = {getattr(row, name)!r} must be one of {', '.join(words)}"
    for name in ("reasons", "settings"):
        if not isinstance(getattr(row, name), Mapping):
            yield f"{name} must be a mapping"
            return
    yield from _faults_of_sentences(row)
    yield from _faults_of_settings(row)


def _faults_of_sentences(row: Any) -> Iterator[str]:
    sentences: dict[str, Any] = {"refusal": row.refusal, "nudge": row.nudge}
    for reason, found in row.reasons.items():
        if isinstance(found, Sentences):
            sentences |= {f"reasons[{reason!r}].refusal": found.refusal, f"reasons[{reason!r}].nudge": found.nudge}
        else:
            yield f"reasons[{reason!r}] must be Sentences"
    for name, sentence in sentences.items():
        if SENTENCE.parse(sentence) is None:
            yield f"{name} must be {SENTENCE.description}"


def _faults_of_settings(row: Any) -> Iterator[str]:
    known = dict(OF_EVERY_MODE)
    for name, setting in row.settings.items():
        if not isinstance(setting, Setting):
            yield f"settings[{name!r}] must be a Setting"
        elif not _is_name(name) or hasattr(Rule, name) or name in known:
            yield f"settings[{name!r}] cannot have this name"
        else:
            known[name] = setting
    if not isinstance(row.rule, Rule):
        yield f"rule = {row.rule!r} must be a Rule"
        return
    for name, value in row.rule.settings.items():
        if name not in known:
            yield f"rule.{name} = {value!r} is no setting of the mode: declare it in settings"
        elif known[name].parse(value) is None:
            yield f"rule.{name} = {value!r} must be {known[name].description}"
