"""The estimate of the memory of decoded messages, beside the memory that they take."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import orjson
import pytest

from otel_loopguard.cli.watch.decoded_size import json_size, protobuf_size
from tests.docs.blocks import ROOT

from .messages import as_json, call, message

_WORST = 1.7
"""As the module says."""
NUMBER = 20_000
JSON = {
    "empty objects": b"{},",
    "empty arrays": b"[],",
    "objects with a member": b'{"":0},',
    "arrays in arrays": b"[[[[]]]],",
    "objects in objects": b'{"a":{"a":{"a":{}}}},',
    "objects with six members": b'{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0},',
    "integers": b"300,",
    "floats": b"1e9,",
    "strings": b'"ab",',
    "wide strings": '"xxxxxxxxxxxxxxxx\U0001f600",'.encode(),
    "escaped wide strings": b'"xxxxxxxxxxxxxxxx\\ud83d\\ude00",',
}
PROTOBUF = ("spans", "resources", "scopes", "attributes", "events", "links", "link_attributes", "values", "pairs")
MEASURE = """
import sys
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tests.cli.watch.test_decoded_size import bomb
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
payload = bomb(sys.argv[1], 500_000)
TracesData.FromString(bomb(sys.argv[1], 10))
before = resident()
kept = TracesData.FromString(payload)
print(resident() - before)
"""


def field(number: int, content: bytes) -> bytes:
    """Write a message as a field of another one."""
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def bomb(kind: str, number: int) -> bytes:
    """Make a message with so many empty parts of two bytes."""
    ways = {
        "spans": (2, 2, 1),
        "resources": (1,),
        "scopes": (2, 1),
        "attributes": (9, 2, 2, 1),
        "events": (11, 2, 2, 1),
        "links": (13, 2, 2, 1),
        "link_attributes": (4, 13, 2, 2, 1),
        "values": (1, 5, 2, 9, 2, 2, 1),
        "pairs": (1, 6, 2, 9, 2, 2, 1),
    }
    innermost, *around = ways[kind]
    made = field(innermost, b"") * number
    for one in around:
        made = field(one, made)
    return made


@pytest.mark.parametrize("item", JSON.values(), ids=JSON)
def test_json_of_one_kind_of_part_takes_little_more_than_its_estimate(item) -> None:
    """The memory is that of Python's allocator, in bytes."""
    payload = b"[" + item * NUMBER + b"0]"
    tracemalloc.start()
    try:
        kept = orjson.loads(payload)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(kept) > NUMBER
    assert taken <= _WORST * json_size(payload)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
@pytest.mark.parametrize("kind", PROTOBUF)
def test_protobuf_of_one_kind_of_part_takes_little_more_than_its_estimate(kind) -> None:
    """The memory is that of a process, as the library has an allocator of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, kind], check=True, capture_output=True, text=True, cwd=ROOT, timeout=60
    )

    assert int(done.stdout) <= _WORST * protobuf_size(bomb(kind, 500_000))


def test_lengths_and_tags_that_are_longer_than_needed_hide_no_part() -> None:
    """They cost the sender bytes, and the estimate counts them."""
    long_length, long_tag = b"\x4a\x80\x80\x00", b"\xca\x80\x00\x00"

    assert protobuf_size(long_length * 1_000) >= 60 * 1_000
    assert protobuf_size(long_tag * 1_000) >= 60 * 1_000
    assert protobuf_size(b"\x92\x00\x00" * 1_000) >= 170 * 1_000


def test_spans_of_programs_are_estimated_at_less_than_ten_times_their_bytes() -> None:
    """A limit that is too strict would refuse what there is room for."""
    spans = message(*(call(number, result="a result of some words " * 8) for number in range(1, 200)))
    protobuf, text = spans.SerializeToString(), json.dumps(as_json(spans)).encode()

    assert protobuf_size(protobuf) < 10 * len(protobuf)
    assert json_size(text) < 10 * len(text)
