"""Which short results say nothing, or say that nothing was found."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.values.emptiness import Emptiness, emptiness


@pytest.mark.parametrize("text", ["", "null", "None", "{}", '""'])
def test_some_results_say_nothing(text):
    """Of a look that is an answer, of an act a receipt."""
    assert emptiness(text) is Emptiness.VOID


@pytest.mark.parametrize(
    "text",
    [
        "[]", '{"items": [], "page": 7}', '{"results":[],"total":0,"ok":true}', '{"data": null}', "No matches found",
        "(0 rows)", "no results for harbor", "User not found.", "Nothing found", "[no input]", "does not exist",
        "I could not complete the task: no access", "Kein Ergebnis", "nicht gefunden", "Aucun résultat", "introuvable",
        "Sin resultados", "Ningún cliente", "Nenhum resultado", "Nessun risultato", "没有找到", "見つかりません",
    ],
)  # fmt: skip
def test_some_say_that_nothing_was_found(text):
    """In JSON, and in the words of several languages."""
    assert emptiness(text) is Emptiness.NOTHING


@pytest.mark.parametrize(
    "text",
    [
        "ok", "done", "saved", "true", "42", "no errors found", "0 issues", "no changes", "Deleted 3 rows", "[1]",
        '{"items": [], "hint": "ask again"}', '{"name": "none of your business"}', "notes", "the note was written",
        "No results. " + "More text that says something else. " * 4,
    ],
)  # fmt: skip
def test_all_other_results_are_content(text):
    """An acknowledgement, good news, a word beside an empty list, a long text."""
    assert emptiness(text) is Emptiness.CONTENT
