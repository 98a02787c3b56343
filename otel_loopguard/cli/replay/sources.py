"""Read the lines of files and of standard input, one at a time: plain, or packed by gzip or zstd."""

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
"""Bytes. A longer line is reported and skipped: a parsed line of brackets takes twenty times its bytes in memory."""
_MOST_BLANK = 1_000_000
"""Blank lines in a row. A packed file of a megabyte may hold a thousand million of them."""
STDIN = "-"
HELP = (
    "a file of runs, one JSON object a line, or of spans, as a collector's file exporter and `otel-loopguard watch "
    "--record` write them, of this package or of other instrumentations; plain, gzip or zstd; - is standard input"
)
"""The help text of an argument for input files."""


class Line(NamedTuple):
    """A line of an input."""

    name: str
    """The name of the input."""
    number: int
    """Counted from 1."""
    data: bytes
    fault: str = ""
    """Why it cannot be judged; empty if it can."""


class End(NamedTuple):
    """The end of an input."""

    name: str
    fault: str = ""
    """Why the rest of it cannot be read; empty if it was read to its end."""


def check(names: list[str]) -> None:
    """Raise ``LoopGuardError`` if files cannot be read or unpacked; its message names each of them."""
    problems = [problem for name in names if name != STDIN for problem in [_problem(name)] if problem]
    if problems:
        raise LoopGuardError("\n".join(problems))


def _problem(name: str) -> str | None:
    try:
        with Path(name).open("rb") as file:
            start = file.read(4)
    except OSError as error:
        return f"{name}: {error.strerror}"
    if start == _ZSTD and _zstd() is None:
        return f"{name} is packed by zstd: pip install 'otel-loopguard[zstd]' (or unpack it: zstd -d {name})"
    return None


def read(readers: Iterable[Reader]) -> Iterator[Line | End]:
    """Yield the lines of each input that are not blank, and its end."""
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
    """Reads one input. ``position`` and ``size`` count packed bytes; they are 0 for standard input."""

    def __init__(self, name: str, longest_line: int = LONGEST_LINE) -> None:
        """``name`` is a path, or ``-`` for standard input. ``longest_line`` in bytes."""
        self._longest_line = longest_line
        self._too_long = f"the line is longer than {longest_line / _MB:g} MB; --longest-line MB allows longer ones"
        self.name = "standard input" if name == STDIN else name
        self._path = name
        self._raw: IO[bytes] | None = None
        self.size = 0 if name == STDIN else Path(name).stat().st_size

    @property
    def position(self) -> int:
        """The number of bytes that were read so far; 0 if it is not known."""
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
                    raise OSError(f"over {_MOST_BLANK:,} blank lines in a row; remove them (grep .) to read the rest")

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
    """Return the module that unpacks zstd; None if it is not installed."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "zstandard"
    try:
        return import_module(name)
    except ImportError:
        return None


def unpacking_error() -> type[Exception]:
    """Return the class of the error that damaged zstd raises (``zlib.error``, of gzip, if zstd is not installed)."""
    module = _zstd()
    return zlib.error if module is None else module.ZstdError


def _unpack_zstd(raw: IO[bytes]) -> Any:
    module = _zstd()
    if module is None:  # only standard input: files were checked before
        raise LoopGuardError("standard input is packed by zstd: pip install 'otel-loopguard[zstd]'")
    if hasattr(module, "ZstdFile"):
        return module.ZstdFile(raw)
    stream = module.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
    return io.BufferedReader(stream, _BUFFER)
