"""Read the lines of files and of standard input, plain, gzip or zstd, one at a time."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MB = _BUFFER = 1 << 20
LONGEST_LINE = 16 << 20
"""Bytes. A longer line is reported as broken and skipped: parsed, a line of brackets takes twenty times its length."""
_MOST_BLANK = 1_000_000
"""Blank lines in a row. A packed file of a megabyte may hold a thousand million."""
STDIN = "-"
HELP = (
    "runs, one JSON object a line; or tool spans, as a collector's file exporter and `otel-loopguard watch --record` "
    "write them, ours or those of other instrumentations; plain, gzip or zstd; - is standard input"
)
"""The possible contents of the files of a command."""


class Line(NamedTuple):
    """One line."""

    name: str
    """The name of its input."""
    number: int
    data: bytes
    fault: str = ""
    """The reason for which it cannot be judged."""


class End(NamedTuple):
    """The end of an input."""

    name: str
    fault: str = ""
    """The reason for which the rest of it cannot be read."""


class InputError(LoopGuardError):
    """A file cannot be read. Raised before any work is done."""


class EndlessError(OSError):
    """An input does not end within reason."""


class OutputError(LoopGuardError):
    """The output cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror or error}")


def check(names: list[str]) -> None:
    """Check that every file exists and can be unpacked; the error names all that cannot."""
    problems = [problem for name in names if name != STDIN for problem in [_problem(name)] if problem]
    if problems:
        raise InputError("\n".join(problems))


def _problem(name: str) -> str | None:
    try:
        with Path(name).open("rb") as file:
            start = file.read(4)
    except OSError as error:
        return f"{name}: {error.strerror}"
    if start == _ZSTD and _zstd() is None:
        return (
            f"{name}: this is zstd; pip install 'otel-loopguard[zstd]' (or unpack it: zstd -dc {name} | ... replay -)"
        )
    return None


def read(readers: Iterable[Reader]) -> Iterator[Line | End]:
    """Yield every line that is not blank of every input, and the end of each."""
    for reader in readers:
        fault = ""
        try:
            yield from reader.lines()
        except BrokenPipeError:
            raise
        except (OSError, EOFError, unpacking_error()) as error:  # a packed file that is cut off
            fault = f"cannot be read to its end: {error}"
        yield End(reader.name, fault)


class Reader:
    """Reads one input. ``position`` and ``size`` count packed bytes, for the progress line."""

    def __init__(self, name: str, longest_line: int = LONGEST_LINE) -> None:
        self._longest_line = longest_line
        self._too_long = f"the line is longer than {longest_line / _MB:g} MB; --longest-line allows a longer one"
        self.name = "standard input" if name == STDIN else name
        self._path = name
        self._raw: IO[bytes] | None = None
        self.size = 0 if name == STDIN else Path(name).stat().st_size

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        try:
            return self._raw.tell() if self._raw is not None and self.size else 0
        except (OSError, ValueError):  # a pipe; a file that is closed by now
            return 0

    def lines(self) -> Iterator[Line]:
        """Yield the lines that are not blank."""
        with self._opened() as unpacked:
            number = blank = 0
            while data := unpacked.readline(self._longest_line):
                number += 1
                if number == 1:
                    data = data.removeprefix(codecs.BOM_UTF8)
                whole = len(data) < self._longest_line or data.endswith(b"\n")
                if not whole:
                    while (rest := unpacked.readline(_BUFFER)) and not rest.endswith(b"\n"):
                        pass
                if not data.isspace():
                    blank = 0
                    yield Line(self.name, number, data) if whole else Line(self.name, number, b"", self._too_long)
                elif (blank := blank + 1) > _MOST_BLANK:
                    raise EndlessError(
                        f"over {_MOST_BLANK:,} blank lines in a row; remove them (grep .) to read the rest"
                    )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        raw: Any = sys.stdin.buffer if self._path == STDIN else Path(self._path).open("rb", _BUFFER)  # noqa: SIM115 - closed by the reader
        self._raw = raw
        try:
            start = raw.peek(4)[:4]
            if start.startswith(_GZIP):
                with gzip.open(raw) as unpacked:
                    yield unpacked
            elif start == _ZSTD:
                with _unpack_zstd(raw) as unpacked:
                    yield unpacked
            else:
                yield raw
        finally:
            if self._path != STDIN:
                raw.close()


def _zstd() -> Any:
    """Import the module that unpacks zstd, if it is installed."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "zstandard"
    try:
        return import_module(name)
    except ImportError:
        return None


def unpacking_error() -> type[Exception]:
    """Return the error that a damaged zstd file raises; gzip raises OSError."""
    module = _zstd()
    return zlib.error if module is None else module.ZstdError


def _unpack_zstd(raw: IO[bytes]) -> Any:
    module = _zstd()
    if module is None:  # only standard input: files were checked before
        raise InputError("standard input: this is zstd; pip install 'otel-loopguard[zstd]'")
    if hasattr(module, "ZstdFile"):
        return module.ZstdFile(raw)
    stream = module.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
    return io.BufferedReader(stream, _BUFFER)
