"""Timestamps, ids and durations are masked, and nothing else."""

import pytest

from otel_loopguard.core.values.masking import masked_views


def views_of(text):
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
    """Two answers that differ only in such a value are equal, for every value and every spelling of the key."""
    one, other = (views_of(write.format(key=key, value=value)) for value in ("abc", "another"))
    assert one.without_durations.masked == other.without_durations.masked


@pytest.mark.parametrize("key", ["request", "span", "trace", "identity"])
def test_values_under_other_keys_are_not(key):
    """A key that only begins like one of an id is not masked, because its value counts."""
    one, other = (views_of(f"{key}: {value}, all is well") for value in ("abc", "xyz"))
    assert one.without_durations.masked != other.without_durations.masked


def test_durations_have_a_view_of_their_own():
    """Durations are masked while nothing changed, and shown after a change; without any, both views are one."""
    timed = views_of("built in 3.2s, 4 warnings")
    assert "3.2" not in timed.without_durations.masked
    assert "3.2" in timed.with_durations.masked
    assert timed.without_durations.numbers == (4.0,)
    assert timed.with_durations.numbers == (3.2, 4.0)
    plain = views_of("built, 4 warnings")
    assert plain.without_durations is plain.with_durations


def test_a_letter_that_is_two_in_lower_case_moves_no_mask():
    """Positions in the lower-case text are used only if both texts have the same length."""
    text = "İİİİİİ request_id: 5 İ keep this"
    assert views_of(text).without_durations.masked.endswith("İ keep this")


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
    """ISO and HTTP dates, hashes and addresses are masked, in colour or not."""
    one, other = (views_of(f"{write.format(second)} all is well") for second in (7, 42))
    assert one.without_durations.masked == other.without_durations.masked


def test_a_colour_tells_texts_apart():
    """A word in red differs from that word in green, and a colour is no number that moves."""
    red, green = views_of("\x1b[31mtests\x1b[0m"), views_of("\x1b[32mtests\x1b[0m")
    assert red.without_durations.masked != green.without_durations.masked
    assert red.without_durations.shape != green.without_durations.shape
