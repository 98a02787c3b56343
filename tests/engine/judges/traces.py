"""Canonical traces: small worlds and agents that are stuck in them or work in them, drawn from a seed.

A kind is a function of a ``Maker``, which draws tool names (synonyms), texts and result formats, renders names as
named, prefixed by a server, in camelCase or opaque. It yields steps and reacts to nothing.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from tests.engine.reference.judge import Contract
from tests.engine.reference.plain import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMINGS = ("named", "prefixed", "camel", "opaque")
SERVERS = ("acme", "fs", "github", "desk", "mcp__acme", "corp")
FORMATS = ("text", "json", "shuffled", "object", "mcp")
ERRORS = ("text", "exception", "flag", "mcp", "result")
_WORDS = (
    "amber basil cedar delta ember fjord grove hazel iris jade karst lotus maple nectar olive pearl quartz raven sable "
    "tulip umber violet willow xenon yarrow zephyr anchor beacon canyon dune echo falcon glacier harbor island jungle"
)
WORDS = _WORDS.split()


class Step(NamedTuple):
    """A call, its outcome, and the seconds that passed before it."""

    call: ToolCall
    outcome: Outcome
    passed: float = 1.0


class Maker:
    """Draw the parts of a trace that are free to vary."""

    def __init__(self, rng: random.Random, naming: str = "named") -> None:
        self.rng = rng
        self.naming = naming
        self.format = rng.choice(FORMATS)
        self.errors = rng.choice(ERRORS)
        self.server = rng.choice(SERVERS)
        self.glue = "__" if self.server.startswith("mcp") else rng.choice(("__", "."))
        self.names: dict[str, str] = {}
        self.contracts: dict[str, Contract] = {}
        self.known: frozenset[str] | None = None
        self.calls = 0

    def tool(self, *synonyms: str) -> str:
        """The name of a tool; equal synonyms give the same tool."""
        role = synonyms[0]
        if role not in self.names:
            self.names[role] = self._render(self.rng.choice(synonyms))
        return self.names[role]

    def _render(self, name: str) -> str:
        if self.naming == "prefixed":
            return f"{self.server}{self.glue}{name}"
        if self.naming == "camel":
            first, *rest = words(name)
            return first + "".join(word.capitalize() for word in rest)
        if self.naming == "opaque":
            return f"tool_{71 + 13 * len(self.names)}"
        return name

    def declare(self, tool: str, **contract: Any) -> None:
        """Declare the contract of a tool."""
        self.contracts[tool] = Contract(**contract)

    def word(self) -> str:
        """Draw a word."""
        return self.rng.choice(WORDS)

    def several(self, count: int) -> list[str]:
        """Draw some different names."""
        found: list[str] = []
        while len(found) < count:
            name = "-".join(self.rng.sample(WORDS, 3))
            if name not in found:
                found.append(name)
        return found

    def prose(self, length: int = 12) -> str:
        """Draw some text."""
        return " ".join(self.word() for _ in range(length)).capitalize() + "."

    def uuid(self) -> str:
        """Draw a fresh UUID."""
        raw = f"{self.rng.getrandbits(128):032x}"
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-a{raw[17:20]}-{raw[20:]}"

    def hash(self, length: int = 12) -> str:
        """Draw a fresh hash with a letter and a digit in it."""
        return (
            f"{self.rng.getrandbits(160):040x}"[: length - 2]
            + self.rng.choice("abcdef")
            + self.rng.choice("0123456789")
        )

    def stamp(self) -> str:
        """Draw a fresh time of day."""
        self.calls += 7
        minutes, seconds = divmod(self.calls, 60)
        return f"2026-03-{11 + minutes // 1440:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}Z"

    def took(self) -> str:
        """Draw a fresh duration."""
        return f"{self.rng.uniform(0.1, 9):.2f}s"

    def call(self, tool: str, **arguments: Any) -> ToolCall:
        """Make a call."""
        self.calls += 1
        return ToolCall(tool, arguments, f"call_{self.calls}", self.known)

    def text(self, text: str) -> Outcome:
        """Make an outcome of a text."""
        if self.format == "mcp":
            return Outcome({"content": [{"type": "text", "text": text}], "isError": False})
        return Outcome(text)

    def fields(self, **fields: Any) -> Outcome:
        """Make an outcome of named values, in the trace's format."""
        if self.format == "text":
            return Outcome("\n".join(f"{name}: {value}" for name, value in fields.items()))
        items = list(fields.items())
        if self.format == "shuffled":
            self.rng.shuffle(items)
        if self.format == "object":
            return Outcome(dict(items))
        dumped = json.dumps(dict(items))
        return self.text(dumped)

    def error(self, text: str) -> Outcome:
        """Make an error, in the trace's style."""
        if self.errors == "text":
            return Outcome(error=text)
        if self.errors == "exception":
            return Outcome(error=RuntimeError(text))
        if self.errors == "flag":
            return Outcome(text, is_error=True)
        if self.errors == "mcp":
            return Outcome({"content": [{"type": "text", "text": text}], "isError": True})
        return Outcome(f"Error: {text}")


@dataclass(frozen=True)
class TraceKind:
    """One kind of trace. ``blind``: it cannot be recognised under opaque names (only of stuck ones)."""

    name: str
    stuck: bool
    build: Callable[[Maker], Iterator[Step]]
    canonical: bool = False
    blind: bool = False


@dataclass
class Trace:
    """One trace: its steps and the contracts of its tools."""

    kind: TraceKind
    naming: str
    seed: int
    steps: list[Step]
    contracts: dict[str, Contract] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind.name} {self.naming} seed={self.seed}"


KINDS: dict[str, TraceKind] = {}


def stuck(
    build: Callable[[Maker], Iterator[Step]] | None = None, *, canonical: bool = False, blind: bool = False
) -> Any:
    """Register a kind whose agent makes no progress."""
    return _register(build, stuck=True, canonical=canonical, blind=blind)


def legitimate(build: Callable[[Maker], Iterator[Step]] | None = None, *, canonical: bool = False) -> Any:
    """Register a kind whose agent works."""
    return _register(build, stuck=False, canonical=canonical, blind=False)


def _register(build: Any, **settings: bool) -> Any:
    def keep(made: Callable[[Maker], Iterator[Step]]) -> Callable[[Maker], Iterator[Step]]:
        KINDS[made.__name__] = TraceKind(made.__name__, build=made, **settings)
        return made

    return keep(build) if build else keep


def trace(name: str, naming: str, seed: int) -> Trace:
    """The trace of a kind that this seed draws; it is the same for every naming."""
    maker = Maker(random.Random(f"{name}/{seed}"), naming)
    steps = list(KINDS[name].build(maker))
    return Trace(KINDS[name], naming, seed, steps, maker.contracts)


def kinds(*, stuck: bool, canonical: bool | None = None) -> list[str]:
    """The names of the kinds of one sort."""
    from tests.engine.judges import traces_canonical, traces_further, traces_numbers, traces_own

    assert traces_canonical
    assert traces_further
    assert traces_numbers
    assert traces_own
    return [k.name for k in KINDS.values() if k.stuck == stuck and canonical in (None, k.canonical)]
