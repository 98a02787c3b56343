"""Read the word lists of ``words.toml`` and find the kind of a tool by the words of its name."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.pending import PendingWords
from otel_loopguard.engine.vocabulary import Kind

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # only there on Python 3.10

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREFIX_ENDS = re.compile(r"__|::|[./:]")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@cache
def word_lists() -> Mapping[str, Any]:
    """Return the tables of ``words.toml``. The file is read once."""
    data_file = files("otel_loopguard.engine.tools").joinpath("words.toml")
    lists: Mapping[str, Any] = tomllib.loads(data_file.read_text("utf-8"))
    return lists


class Lexicon:
    """The word lists of ``words.toml``, extended by those of a policy."""

    def __init__(self, more: Mapping[str, tuple[str, ...]] | None = None) -> None:
        more = more or {}
        lists = word_lists()
        self._verbs = _by_word(_VERBS, lists)
        self._nouns = _by_word(_NOUNS, lists)
        for name in ("read", "write", "shell", "agent", "think", "poll", "wait"):  # the policy's words win
            self._verbs.update((word, Kind(name)) for word in more.get(name, ()))
        self._verbs.update((word, Kind.WRITE) for name in ("cursor", "take") for word in more.get(name, ()))
        self._phrases = [(f" {phrase} ", Kind(name)) for name, some in lists["phrases"].items() for phrase in some]
        self.pending = PendingWords((*lists["pending"], *more.get("pending", ())), lists["ended"])
        silent = lists["silent"]
        self._silent_ids, self._looks_up_ids = _spellings(silent["ids"]), frozenset(silent["looks_up_ids"])
        self._silent_reasons, self._silent_descriptions = (
            _spellings(silent["reasons"]),
            frozenset(silent["descriptions"]),
        )
        self.places_of_thoughts = _spellings(silent["places"])
        self._hand_overs = self._silent_reasons | self._silent_descriptions | _spellings(silent["hand_overs"])
        self.may_be_silent = self._silent_ids | self._hand_overs | self.places_of_thoughts
        """Names of parameters that may say nothing about what a call does; most calls have none of them."""
        self.dangerous = frozenset(lists["dangerous"])
        self._take = frozenset((*lists["take"], *more.get("take", ())))
        self._cursor = frozenset((*lists["cursor"], *more.get("cursor", ()), *self._take, "move"))
        self._take_nouns = frozenset(lists["take_nouns"])
        self._money = frozenset(lists["money"])
        self._writes_or_noun = frozenset(lists["write_or_noun"])
        self._final = frozenset((*lists["final"], *more.get("final", ())))
        self._handoff = (*lists["handoff"], *more.get("handoff", ()))

    def kind_of_name(self, name: str) -> Kind:
        """Return the kind of a tool, or of an action, by the words of its name; UNKNOWN if no word is known."""
        for place, part in enumerate(name_parts(name)):
            found = self._kind_of_part(part)
            if found is not None and not (place and found is Kind.WRITE):  # a server named "store" is no verb
                return found
        return Kind.UNKNOWN

    def takes_next(self, name: str) -> bool:
        """Return True if the tool takes the next item, so that each result is another item."""
        words = frozenset(word for part in name_parts(name)[:1] for word in part)
        return not words.isdisjoint(self._take) and words.isdisjoint(self._take_nouns)

    def moves_money(self, name: str) -> bool:
        """Return True if a tool that writes moves money."""
        return any(word in self._money for part in name_parts(name)[:1] for word in part)

    def moves_cursor(self, name: str) -> bool:
        """Return True if the tool moves a cursor: numbers that move in one direction are its position."""
        return any(word in self._cursor for part in name_parts(name)[:1] for word in part)

    def silent_parameters(self, name: str, kind: Kind) -> frozenset[str]:
        """Return the names of parameters that say nothing about what a call does, for a tool of this name and kind."""
        silent: frozenset[str] = frozenset()
        if self._looks_up_ids.isdisjoint(word for part in name_parts(name) for word in part):
            silent = self._silent_ids
        if kind is Kind.HANDOFF:
            return silent | self._hand_overs
        if kind is Kind.THINK:
            silent |= self.places_of_thoughts
        if kind not in _EXPRESSES:
            silent |= self._silent_reasons
        return silent | self._silent_descriptions if kind in _ONLY_ACTS else silent

    def _kind_of_part(self, words: list[str]) -> Kind | None:
        whole = " ".join(words)
        if whole in self._final:
            return Kind.FINAL
        if whole.startswith(self._handoff):
            return Kind.HANDOFF
        for phrase, kind_of_phrase in self._phrases:
            if phrase in f" {whole} ":
                return kind_of_phrase
        kinds = [kind for word in words if (kind := self._verbs.get(word))]
        if words[0] in self._writes_or_noun and _READS_OR_POLLS.isdisjoint(
            (*kinds, *(self._nouns.get(word) for word in words))
        ):
            kinds.insert(0, Kind.WRITE)
        for kind in kinds:
            if kind is Kind.WRITE:
                break
            if kind.polls:
                return kind
        if kinds and not _CONJUNCTIONS.isdisjoint(words) and Kind.WRITE in kinds:
            return Kind.WRITE  # find_and_replace, get_or_create
        return kinds[0] if kinds else next((noun for word in words if (noun := self._nouns.get(word))), None)


_READS_OR_POLLS = frozenset({Kind.READ, Kind.POLL, Kind.WAIT})
_EXPRESSES = frozenset({Kind.THINK, Kind.AGENT, Kind.FINAL})
"""Kinds of tools that take their content as a reason or a thought."""
_ONLY_ACTS = frozenset({Kind.READ, Kind.POLL, Kind.SHELL})
"""Kinds of tools that store no description."""
_OF_TIME = frozenset({"for", "seconds", "second", "ms", "time", "timer"})
_CONJUNCTIONS = frozenset({"and", "or"})
_VERBS = (
    ("poll", Kind.POLL),
    ("wait", Kind.WAIT),
    ("think", Kind.THINK),
    ("read", Kind.READ),
    ("write", Kind.WRITE),
    ("cursor", Kind.WRITE),
    ("take", Kind.WRITE),
    ("shell", Kind.SHELL),
    ("agent", Kind.AGENT),
)
_NOUNS = (("read_nouns", Kind.READ), ("think_nouns", Kind.THINK))


def _by_word(names: tuple[tuple[str, Kind], ...], lists: Mapping[str, Any]) -> dict[str, Kind]:
    """Map each word to its kind; a word in two lists has the kind of the first."""
    kinds: dict[str, Kind] = {}
    for name, kind in names:
        for word in lists[name]:
            kinds.setdefault(word, kind)
    return kinds


def _spellings(parameters: list[str]) -> frozenset[str]:
    """Return the parameters as they are written with underscores and in camelCase."""
    first_rest = [parameter.split("_") for parameter in parameters]
    return frozenset(parameters) | {first + "".join(map(str.title, rest)) for first, *rest in first_rest}


def only_waits(name: str, more: Iterable[str] = ()) -> bool:
    """Return True if a tool waits for nothing but time, by its name: ``sleep``, and not ``wait_for_deploy``.

    ``more``: the policy's words for waiting.
    """
    words, of_name = {*word_lists()["wait"], *more}, {word for part in name_parts(name)[:1] for word in part}
    return not words.isdisjoint(of_name) and of_name <= words | _OF_TIME


def name_parts(name: str) -> list[list[str]]:
    """Split a tool's name into words: its own name first, then its prefixes. ``fs__readFile``: [[read, file], [fs]]."""
    parts = [_WORDS.findall(part) for part in _PREFIX_ENDS.split(name) if part]
    return [[word.lower() for word in part] for part in reversed(parts) if part]
