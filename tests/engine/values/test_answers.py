"""Two results are one answer if they differ only in ids and in the parts that repeat the arguments."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.values.answers import answer_fingerprint, answer_outline
from otel_loopguard.engine.values.fingerprint import Fingerprinter

PRINTS = Fingerprinter(b"key")


def outline(text, arguments):
    return answer_outline(text.encode(), arguments, PRINTS)


def fingerprint(text, arguments):
    return answer_fingerprint(text.encode(), arguments, PRINTS)


SAME = [
    ("No file matches {}.", "src/a.py", "tests/unit/b.py"),
    ("No file matches 'src'. Request 3fa9c{:03}e1, try again.", 7, 42),
    ('{{"error": null, "took": "{} ms", "items": []}}', "3", "12"),
    ("2026-05-01T10:00:{:02}Z no entry in the last hour", 7, 42),
    ("Seite {} hat keine Einträge", "3", "17"),
    ("找不到 {} 的结果", "天气预报", "股票价格"),
]


@pytest.mark.parametrize(("answer", "one", "other"), SAME)
@pytest.mark.parametrize("write", ["{}", "{}\n" + 60 * "The same text follows each time. "])
def test_ids_and_own_arguments_make_no_difference(answer, one, other, write):
    """The answer is the same, and its outline is, too."""
    texts = [write.format(answer.format(value)) for value in (one, other)]
    arguments = [{"q": value} for value in (one, other)]
    assert len({outline(*pair) for pair in zip(texts, arguments, strict=True)}) == 1
    assert len({fingerprint(*pair) for pair in zip(texts, arguments, strict=True)}) == 1


def test_other_answers_differ():
    """An answer with other words or numbers is another answer; outlines differ only by their letters."""
    assert outline("A report of sales", {}) != outline("A list of persons", {})
    form = '{{"customer": {{"name": "{}", "address": "12 Long Street, Springfield", "orders": []}}}}'
    assert outline(form.format("Kim"), {}) != outline(form.format("Timothy"), {})
    assert fingerprint("12 rows left to copy", {}) != fingerprint("13 rows left to copy", {})
    assert fingerprint('{"id": "3fa9c0e1"}', {}) != fingerprint('{"id": "3fa9c0e2"}', {})


def test_a_short_argument_is_removed_as_a_word_only():
    """The letter of an argument is no part of other words."""
    assert fingerprint("no entry for a", {"q": "a"}) == fingerprint("no entry for b", {"q": "b"})
    assert fingerprint("an apple", {"q": "a"}) != fingerprint("bn bpple", {"q": "b"})


def test_the_keys_of_the_contract_are_left_out():
    """A contract's volatile keys are no part of the answer."""
    one, other = (b'{"who": "ann", "items": []}', b'{"who": "bob", "items": []}')
    prints = [answer_fingerprint(data, {}, PRINTS, volatile_keys=("who",)) for data in (one, other)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("arguments", [None, "text", 7, {"a": "\ud800bc"}, {"n": 10**5000}, {"s": {1, 2}}, [["x"]]])
def test_all_arguments_are_accepted(arguments):
    """Arguments that are no dictionary, or that nothing can encode, are left in the answer."""
    assert outline("some text", arguments) == outline("some text", {})
    assert fingerprint("some words", arguments) == fingerprint("some words", {})
