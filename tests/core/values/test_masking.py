"""What of a result says nothing."""

import pytest

from otel_loopguard.core.values.masking import masked_views


def faces_of(text):
    return masked_views(text.encode(), volatile_keys=(), mask=True)


KEYS = [
    "request_id",
    "requestId",
    "request-id",
    "X-Request-ID",
    "req_id",
    "trace_id",
    "spanId",
    "correlation-id",
    "etag",
    "nonce",
]


@pytest.mark.parametrize("key", [*KEYS, "request id"])
@pytest.mark.parametrize("write", ["{key}: {value}, all is well", '{{"{key}": "{value}", "state": "well"}}'])
def test_values_under_keys_that_name_the_answer_are_masked(key, write):
    """Whatever such a value looks like, and however the key is written, two answers that differ in it are the same."""
    one, other = (faces_of(write.format(key=key, value=value)) for value in ("abc", "another"))
    assert one.quiet.masked == other.quiet.masked


@pytest.mark.parametrize("key", ["request", "span", "trace", "identity"])
def test_values_under_other_keys_are_not(key):
    """A key that only begins like one of an id holds something that counts."""
    one, other = (faces_of(f"{key}: {value}, all is well") for value in ("abc", "xyz"))
    assert one.quiet.masked != other.quiet.masked


def test_durations_have_a_face_of_their_own():
    """Durations are masked while nothing changed, and shown after a change; without any, both faces are one."""
    timed = faces_of("built in 3.2s, 4 warnings")
    assert "3.2" not in timed.quiet.masked
    assert "3.2" in timed.changed.masked
    assert timed.quiet.numbers == (4.0,)
    assert timed.changed.numbers == (3.2, 4.0)
    plain = faces_of("built, 4 warnings")
    assert plain.quiet is plain.changed


def test_a_letter_that_is_two_in_lower_case_moves_no_mask():
    """Places found in the lower-case text are used in the text itself only where both are as long."""
    text = "İİİİİİ request_id: 5 İ keep this"
    assert faces_of(text).quiet.masked.endswith("İ keep this")


@pytest.mark.parametrize(
    "write",
    [
        "2026-05-01T10:00:{:02}Z", "2026-05-01 10:00:{:02}.123+02:00", "20260501T1000{:02}Z",
        "Fri, 01 May 2026 10:00:{:02} GMT", "Friday, 01-May-26 10:00:{:02} GMT",
        "\x1b[32m2026-05-01T10:00:{:02}Z\x1b[0m", "<Job object at 0x7f3a{:02}bc44e0>", "3f9ac{:02}e",
        "\\u001b[1;31m3f9ac{:02}e",
    ],
)  # fmt: skip
def test_times_and_ids_are_masked_however_they_are_written(write):
    """ISO and HTTP dates, hashes and addresses, in colour or not, say nothing."""
    one, other = (faces_of(f"{write.format(second)} all is well") for second in (7, 42))
    assert one.quiet.masked == other.quiet.masked


def test_a_colour_tells_texts_apart():
    """The same word in red and in green is not the same, and a colour is no number that moves."""
    red, green = faces_of("\x1b[31mtests\x1b[0m"), faces_of("\x1b[32mtests\x1b[0m")
    assert red.quiet.masked != green.quiet.masked
    assert red.quiet.shape != green.quiet.shape
