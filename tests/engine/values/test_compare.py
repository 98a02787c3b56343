"""A result is compared with that of the last run of the same call: same, progress, alike or different."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.engine.values.compare import compare, detailed_fingerprints
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.vocabulary import Kind, Sameness

PRINTS = Fingerprinter(b"key")
SAME, PROGRESS, ALIKE, DIFFERENT = Sameness.SAME, Sameness.PROGRESS, Sameness.ALIKE, Sameness.DIFFERENT


def compared(*texts, kind=Kind.READ, is_error=False, moves_cursor=False, changed=False, mask=True):
    """Compare each text with the one before."""
    found, last = [], None
    for text in texts:
        now = detailed_fingerprints(text.encode(), PRINTS, volatile_keys=(), mask=mask, is_error=is_error)
        if last is not None:
            found.append(compare(last, now, kind, moves_cursor=moves_cursor, changed=changed))
        last = now
    return found


def test_a_number_that_keeps_its_direction_is_progress():
    """Each number has its own direction, and one that does not move has none."""
    assert compared("batch 6, 34 left of 40", "batch 7, 33 left of 40", "batch 8, 33 left of 40") == [PROGRESS] * 2
    assert compared("4 of 40", "4  of 40")[0] is DIFFERENT


def test_a_reversal_is_alike_once():
    """A number may begin again: its first turn is no progress, the way after it is."""
    assert compared("8 of 9", "9 of 9", "1 of 9", "2 of 9") == [PROGRESS, ALIKE, PROGRESS]


def test_a_number_to_and_fro_is_noise():
    """A number that turned twice, and at least at every third comparison, is looked at no more."""
    texts = [f"load {load}, disk {disk}" for load, disk in [(3, 1), (5, 1), (4, 1), (6, 1), (2, 1), (3, 1), (4, 2)]]
    assert compared(*texts) == [PROGRESS, ALIKE, PROGRESS, ALIKE, ALIKE, PROGRESS]


def test_only_what_may_move_by_itself_progresses():
    """Numbers in the results of commands and writes are no progress, unless they are a part of a whole."""
    for kind in (Kind.SHELL, Kind.WRITE, Kind.AGENT):
        assert compared("stored 3", "stored 4", kind=kind) == [ALIKE]
        assert compared("3 of 9 stored", "4 of 9 stored", kind=kind) == [PROGRESS]
        assert compared("attempt 3 of 9", "attempt 4 of 9", kind=kind) == [ALIKE]


def test_the_position_of_a_cursor_is_progress():
    """A tool that moves a cursor writes, but its numbers are those of the place where it is."""
    assert compared("at row 800", "at row 1600", kind=Kind.WRITE, moves_cursor=True) == [PROGRESS]


NAMES = ["id: {}", "order_id={}", '"runId": "ORD-{}"', "pid {}", "ref#{}", "process {}", "Session: {}", "[id {}]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_names_something_is_no_progress(name):
    """A number under the name of an id is left out wherever it is, and other numbers are not."""
    texts = [f"now {name.format(number)}, see page{number}, all well" for number in (17, 18)]
    assert compared(*texts) == [ALIKE]
    assert compared(f"{texts[0]}: 3 of 9", f"{texts[1]}: 4 of 9") == [PROGRESS]


@pytest.mark.parametrize("name", ["valid {}", "idle {}", "refs {}", "grid {}", "rid of {}", "pages: {}"])
def test_other_numbers_count(name):
    """A word that only begins or ends like the name of an id names nothing."""
    assert compared(*(f"now {name.format(number)}, all well" for number in (17, 18))) == [PROGRESS]


def test_a_write_under_another_id_is_the_same():
    """An order placed again is no other order, unless the id is all that the result gives."""
    placed = ('{{"order_id": {}, "state": "placed"}}', "Order placed, id: {}", "error: run {} failed")
    for text in placed:
        assert compared(text.format(17), text.format(18), kind=Kind.WRITE) == [SAME]
        assert compared(text.format(17), text.format(18), is_error=True) == [SAME]
        assert compared(text.format(17), text.format(18), kind=Kind.SHELL) == [SAME]
        assert compared(text.format(17), text.format(18), kind=Kind.AGENT) == [ALIKE]
    for text in ('{{"id": {}}}', "id: {}"):
        assert compared(text.format(17), text.format(18), kind=Kind.WRITE) == [ALIKE]
    assert compared("3 rows, id: 17", "4 rows, id: 18", kind=Kind.WRITE) == [ALIKE]


def test_a_duration_is_masked_unless_something_changed():
    """After a change the duration may be the measured value."""
    assert compared("all tests passed in 3.2s", "all tests passed in 3.1s") == [SAME]
    assert compared("all tests passed in 3.2s", "all tests passed in 3.1s", changed=True) == [PROGRESS]


def test_nothing_is_masked_of_the_next_thing():
    """The next item of a queue has another id, and is another item."""
    assert compared("job 3fa9c0e1 to do", "job 3fa9c0e2 to do") == [SAME]
    assert compared("job 3fa9c0e1 to do", "job 3fa9c0e2 to do", mask=False) == [ALIKE]
    assert compared("2026-05-01T10:00:07Z", "2026-05-01T10:00:08Z", mask=False) == [DIFFERENT]


def test_a_number_that_is_all_is_the_answer():
    """Two numbers alone are different results, for a tool of any kind."""
    for kind in (Kind.READ, Kind.SHELL, Kind.WRITE):
        assert compared("944", "1234", kind=kind) == [DIFFERENT]
        assert compared("(1.5, 2)", "(1.6, 3)", kind=kind) == [DIFFERENT]


def test_an_id_that_is_all_is_the_answer():
    """If nothing is left after masking, the ids are compared."""
    assert compared('{"id": "3fa9c0e1"}', '{"id": "3fa9c0e2"}') == [ALIKE]
    assert compared('{"id": "3fa9c0e1", "ok": true}', '{"id": "3fa9c0e2", "ok": true}') == [SAME]


def test_an_error_is_no_result():
    """A result with the text of an error is another answer."""
    error, result = (
        detailed_fingerprints(b"at 3.2s: none", PRINTS, volatile_keys=(), mask=True, is_error=is_error)
        for is_error in (True, False)
    )
    assert compare(error, result, Kind.READ, moves_cursor=False, changed=False) is DIFFERENT


def naive_progress(rows: list[list[int]]) -> bool:
    """Look at all rows again: a number moves on in the last step, and none turns for the first time in it."""
    moves_on = turns_first = False
    for column in zip(*rows, strict=True):
        runs, noise, compared = [[0]], False, 0
        for place, (old, new) in enumerate(itertools.pairwise(column)):
            compared += rows[place] != rows[place + 1]
            way = (new > old) - (new < old)
            if way * max(runs[-1], key=abs) < 0:  # it turns, and begins again
                runs.append([0])
                noise = noise or (len(runs) > 2 and 3 * (len(runs) - 1) >= compared)
            else:
                runs[-1].append(way)
        if noise:
            continue
        moves_on = moves_on or runs[-1][-1] != 0
        turns_first = turns_first or (len(runs) == 2 and len(runs[-1]) == 1)
    return moves_on and not turns_first


@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=2, max_size=12))
def test_the_kept_trend_is_that_of_all_rows(rows):
    """The ways and turns that are kept give the same answer as a look at all rows."""
    found = compared(*(f"now {one} and then {other} there" for one, other in rows))
    for place, sameness in enumerate(found, 2):
        if rows[place - 1] == rows[place - 2]:
            assert sameness is SAME
        else:
            assert (sameness is PROGRESS) == naive_progress(rows[:place])
