"""Timestamps, ids and durations are masked, and nothing else."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.values import masking
from otel_loopguard.engine.values.masking import masked_views


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


def test_an_id_after_a_prefix_is_masked_whatever_it_begins_with():
    """An id that begins with a letter and one that begins with a digit leave the same text."""
    letter, digit = (views_of(f"declined, dec_{digits}, try another card") for digits in ("a3f9c01e77", "3f9ac01e77"))
    assert letter.without_durations.masked == digit.without_durations.masked


def test_a_colour_tells_texts_apart():
    """A word in red differs from that word in green, and a colour is no number that moves."""
    red, green = views_of("\x1b[31mtests\x1b[0m"), views_of("\x1b[32mtests\x1b[0m")
    assert red.without_durations.masked != green.without_durations.masked
    assert red.without_durations.shape != green.without_durations.shape


PIECES = (
    "id", "ID", "_id", "pid", "runId", "orderId", "ref", "run", "process", "Session", ":", "=", "#", " ", "\n", "-",
    "_", ".", ",", "/", "of", "17", "3", "12.5", "0", "1234567890", "12345678", "5s", "3 ms", "1.5 min", "7%", "50 %",
    "x", "10:00", "2026-05-01", "2026-05-01T10:00:07.123+02:00", "2026-05-01 10:00:07", "01 May 2026 10:00:07 GMT",
    "UTC", "3f9ac01e", "550e8400-e29b-41d4-a716-446655440000", "0xdeadbeef12", "é", "\u0131", "\u017f", "\u0130",
    "\uff13", "left", "3 left", "remaining: 3", "3 of 4", "attempt 3 of 4", "tries", "Fail", '"', '"a":', '"b3": "c"',
    "null",
)  # fmt: skip
WRITTEN = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


@given(WRITTEN)
def test_words_and_the_parts_between_are_the_text(text):
    """Each word has a digit, and begins with the letters before it; the rest has none."""
    between, words = masking._split(text)
    assert "".join(itertools.chain(*zip(between, [*words, ""], strict=True))) == text
    assert all(re.search("[0-9]", word) for word in words)
    assert not any(re.search("[0-9]", part) for part in between)
    assert not any(re.search(r"[A-Za-z]\Z", part) for part in between[:-1])


@settings(max_examples=500, deadline=None)
@given(WRITTEN)
def test_the_quick_looks_agree_with_the_patterns(text):
    """A search for plain words finds the names, totals and content that the patterns find in the whole text."""
    lower = masking._lower(text)
    names = masking._names(text, lower)
    assert [name.span() for name in names] == [name.span() for name in masking._NAME.finditer(text)]
    part = masking._FRACTION.search(text)
    is_part = part is not None and int(part[1]) <= int(part[2])
    has_total = (is_part or masking._REST.search(text)) and not masking._RETRY.search(text)
    assert masking._has_total(text, lower) == bool(has_total)
    for has_keys in (True, False):
        rest = masking._KEY.sub("", text) if has_keys else text
        assert masking._has_content(text, has_keys=has_keys) == bool(re.search(r"[^\W_]", rest))
        rest = masking._NAME.sub("", text)
        rest = masking._KEY.sub("", rest) if has_keys else rest
        nameless = masking._without_names(text, names, has_keys=has_keys)
        assert bool(nameless) == bool(re.search(r"[^\W_]", rest))


@given(WRITTEN)
def test_a_plain_number_is_never_volatile(text):
    """The quick look past plain numbers leaves out none that the patterns of timestamps, ids and durations match."""
    thorough = re.compile(masking._VOLATILE.pattern.replace(f"(?!{masking._PLAIN_NUMBER})", ""), re.ASCII)
    glued = masking._BLANK_INSIDE.sub(masking._glue, text)
    listed = "\n".join(masking._split(glued)[1])
    assert thorough.pattern != masking._VOLATILE.pattern
    assert masking._VOLATILE.sub("\0", listed) == thorough.sub("\0", listed)


@given(WRITTEN)
def test_a_text_without_digits_has_the_views_of_any_other(text):
    """The short way for such a text gives the views that it has next to a word with a digit."""
    text = re.sub(r"\d", "", text)
    view, other = (views_of(one).without_durations for one in (text, f"{text} 7"))
    assert view.numbers == ()
    assert view.shape == other.shape.removesuffix(" \0")
    assert view.masked == (other.masked.removesuffix(" 7") if re.search(r"[^\W_]", text) else "")
