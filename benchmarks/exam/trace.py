"""Traces: the calls of one agent, each with its times, drawn by a family from a naming and a seed.

A family is a function of a ``Run``: it makes calls and reacts to nothing. Its docstring is the view of a careful human.
The texts of a trace depend on the family and the seed alone, so that a trace is the same under each naming.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.exam.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable

FLAGGED = 0.6
"""The share of runs whose framework flags errors; in the others an error is a text like any other result."""

PACE = (2.0, 7.0)
"""The seconds that a model thinks before a message, at the least and at the most."""


class Call(NamedTuple):
    """One call: when it begins, how long it runs, and its outcome. Calls of one message have the same step."""

    step: int
    thought: float
    """The seconds just before ``begin`` in which the model thought; 0 if they are not known apart from a wait."""
    begin: float
    ran: float
    tool: str
    args: dict[str, Any]
    result: Any
    is_error: bool | None


@dataclass(frozen=True)
class Family:
    """One kind of agent."""

    name: str
    draw: Callable[[Run], None]
    stuck: bool
    told: int = 0
    """Stuck: the call, counted from 1, at which the model must have been told at the latest."""
    refused: int | None = None
    """Stuck: the call that must have been refused at the latest; None: to be told is enough."""
    undecidable: str = ""
    """The fact that no rule can see in the calls alone; such families are counted apart."""
    by_name: bool = False
    """A human, too, needs the tools' names: not counted under opaque names."""

    @property
    def view(self) -> str:
        """The view of a careful human."""
        return " ".join((self.draw.__doc__ or "").split())


@dataclass
class Trace:
    """The calls of one run, and the tools that exist."""

    family: Family
    naming: str
    seed: int
    calls: list[Call]
    tools: frozenset[str]
    flagged: bool


class Run:
    """Draw values and record calls."""

    def __init__(self, names: Names, rng: random.Random, pace: tuple[float, float]) -> None:
        self.names, self.rng, self.pace = names, rng, pace
        self.flagged = rng.random() < FLAGGED
        self.calls: list[Call] = []
        self.made_up: set[str] = set()
        self._step, self._now, self._free = 0, 1000.0, 1000.0

    def __call__(
        self,
        role: str,
        result: Any,
        *,
        pause: float | None = None,
        wait: float = 0,
        ran: float | None = None,
        together: bool = False,
        error: bool = False,
        **args: Any,
    ) -> None:
        """Record a call, which took ``ran`` seconds.

        Before it, the program waited for ``wait`` seconds and the model thought at its pace. ``pause`` is both in one.
        """
        thought = 0.0 if pause is not None else round(self.rng.uniform(*self.pace), 2)
        pause = wait + thought if pause is None else pause * self.rng.uniform(1, 1.05)
        ran = self.rng.uniform(0.1, 1.2) if ran is None else ran
        if not together or not self.calls:
            self._step += 1
            self._now = self._free + pause
        tool = role if role in self.made_up else self.names.tool(role)
        flag = error if self.flagged else None
        self.calls.append(Call(self._step, thought, round(self._now, 2), round(ran, 2), tool, args, result, flag))
        self._free = max(self._free, self._now + ran)

    def fails(self, role: str, text: Any, **rest: Any) -> None:
        """Record a call that fails; the text is all that a framework without flags passes on."""
        self(role, text, error=True, **rest)

    # Values that a family draws.

    def number(self, low: int, high: int) -> int:
        """Draw a whole number."""
        return self.rng.randint(low, high)

    def choice(self, *several: Any) -> Any:
        """Draw one of these."""
        return self.rng.choice(several)

    def word(self) -> str:
        """Draw a word."""
        return self.rng.choice(WORDS)

    def words(self, count: int) -> list[str]:
        """Draw different words."""
        return self.rng.sample(WORDS, count)

    def name(self) -> str:
        """Draw a name that no other draw has given, most likely."""
        return f"{self.word()}-{self.word()}-{self.rng.choice(WORDS)}"

    def prose(self, length: int = 20) -> str:
        """Draw some text."""
        return " ".join(self.rng.choices(WORDS, k=length)).capitalize() + "."

    def file(self, suffix: str = "py") -> str:
        """Draw a path."""
        return f"{self.word()}/{self.word()}_{self.word()}.{suffix}"

    def lines(self, count: int = 12) -> str:
        """Draw some code."""
        return "\n".join(f"{self.word()}.{self.word()}({self.word()!r})" for _ in range(count))

    def url(self) -> str:
        """Draw an address."""
        return f"https://{self.word()}-{self.word()}.example/{self.word()}/{self.word()}-{self.number(10, 9999)}"

    def hex(self, length: int = 12) -> str:
        """Draw a hash, with a digit and a letter in it."""
        drawn = "".join(self.rng.choices("0123456789abcdef", k=length - 2))
        return f"{drawn}{self.rng.choice('abcdef')}{self.rng.choice('0123456789')}"

    def uuid(self) -> str:
        """Draw a UUID."""
        return f"{self.hex(8)}-{self.hex(4)}-4{self.hex(3)}-a{self.hex(3)}-{self.hex(12)}"

    def clock(self) -> str:
        """Tell the time of the call that comes next."""
        days, seconds = divmod(int(self._free), 86400)
        return f"2026-05-{11 + days}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"

    def image(self) -> str:
        """Draw a picture; no two are equal."""
        return "data:image/png;base64," + base64.b64encode(self.rng.randbytes(300)).decode()


_WORDS = (
    "acorn alder aspen barley birch bramble brook cedar chalk cinder clover comet coral crane daisy dell drift dune "
    "elm ember fable fern finch flint fog furrow gale glade gorse granite grove gull harvest hazel heath heron hollow "
    "ivy jasper juniper kelp kestrel kiln lark laurel lichen linden loam lynx mallow marsh mica mist moss myrtle "
    "nettle oak opal orchard otter owl pebble pine plover poppy quarry quill rain reed ridge robin rowan rush saffron "
    "sage shale shore slate sorrel spruce stone swallow tansy teal thicket thistle thorn tide timber vale vetch "
    "walnut wren"
)
WORDS = _WORDS.split()

FAMILIES: dict[str, Family] = {}


def works(*, undecidable: str = "", by_name: bool = False) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a family whose agent works, or waits for good reason."""
    return _register(stuck=False, undecidable=undecidable, by_name=by_name)


def stuck(
    told: int, refused: int | None, *, undecidable: str = "", by_name: bool = False
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a family whose agent makes no progress."""
    return _register(stuck=True, told=told, refused=refused, undecidable=undecidable, by_name=by_name)


def _register(**settings: Any) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    def keep(draw: Callable[[Run], None]) -> Callable[[Run], None]:
        FAMILIES[draw.__name__] = Family(draw.__name__, draw, **settings)
        return draw

    return keep


def trace(family: str, naming: str, seed: int, pace: tuple[float, float] = PACE) -> Trace:
    """Draw the trace of a family that this naming and seed give; the model thinks at this pace before each message."""
    names = Names(naming, random.Random(f"{family}/{naming}/{seed}"))
    run = Run(names, random.Random(f"{family}/{seed}"), pace)
    FAMILIES[family].draw(run)
    tools = frozenset(call.tool for call in run.calls) - run.made_up
    return Trace(FAMILIES[family], naming, seed, run.calls, tools, run.flagged)
