"""Find out if a short result says nothing, or says that nothing was found: ``[]``, zero rows, "no results".

Every short result passes here, so a search for plain words comes before one for a pattern.
"""

from __future__ import annotations

import enum
import re

LONGEST = 240
"""Letters. A longer result is content."""
_LONGEST_TEXT = 80
"""Letters of a result that is no JSON."""


class Emptiness(enum.IntEnum):
    """The share of a result that answers: all of it, or none."""

    CONTENT = 0
    VOID = 1
    """It says nothing at all: an answer of a look, an acknowledgement of an act."""
    NOTHING = 2
    """It says that nothing was found, or that nothing could be done."""


_VOID = frozenset({"", "null", "None", "{}", '""', "undefined"})
_NOTHING_WORDS = (
    "no ", "not ", "0 ", "zero", "none", "nothing", "n't ", "unable", "[no", "kein", "nicht", "aucun", "introuvable",
    "sin ", "ning", "nenhum", "nessun", "没有", "未找到", "无结果", "不存在", "見つかりません", "該当",
)  # fmt: skip
"""Each match of the pattern has one of them."""
_THINGS = (
    r"(?:results?|match(?:es|ing)?|rows?|records?|items?|entr(?:y|ies)|hits?|documents?|articles?|messages?|data|input|lines?"
    r"|orders?|users?|customers?|such|files?|pages?|speech|answer)"
)
_NOTHING = re.compile(
    rf"\b(?:no|0|zero)\b (?:[\w-]+ ){{0,3}}?{_THINGS}\b"
    r"|\bnot found\b|\b(?:nothing|none) (?:was |were )?found\b|\bdoes not exist\b|\bno \S+ found\b|^none$"
    r"|^\[no [\w ]+\]$"
    r"|\b(?:could not|couldn't|cannot|can't|was not able to|unable to)\b"
    r"|\bkeine? (?:\w+ )?(?:ergebnis|treffer|eintr|daten)|\bnicht gefunden|\bkonnte nicht\b"
    r"|\baucune? (?:r[eé]sultat|donn)"
    r"|\bintrouvable|\bsin resultados|\bno se (?:encontr|pudo)|\bning[uú]n|\bnenhum|\bnessun"
    r"|没有找到|未找到|无结果|不存在|没有.{0,6}结果|見つかりません|該当.{0,4}(?:なし|ありません)"
)
_GOOD_NEWS = re.compile(
    r"\b(?:errors?|issues?|problems?|warnings?|vulnerabilit|conflicts?|failures?|changes|differences)\b"
)
"""To find none of these is an answer: all is well."""
_EMPTY_VALUE = re.compile(r"\[\]|\{\}|\bnull\b|\"\"|\"(?:count|total|hits|found|total_count|totalcount)\" ?: ?0\b")
_KEY_OR_NUMBER = re.compile(r"\"[^\"]*\" ?:|-?\d+(?:\.\d+)?|\"(?:ok|success|none)\"|\b(?:true|false|null)\b")
_WORD = re.compile(r"[^\W\d_]")


def emptiness(text: str) -> Emptiness:
    """Return VOID or NOTHING for JSON, or a text of 80 letters in one of six languages; else CONTENT.

    ``text``: up to ``LONGEST`` letters.
    """
    if text in _VOID:
        return Emptiness.VOID
    lower = text.lower().strip()
    if lower[:1] in {"{", "["} and _EMPTY_VALUE.search(lower) and not _WORD.search(_KEY_OR_NUMBER.sub("", lower)):
        return Emptiness.NOTHING
    if len(text) > _LONGEST_TEXT or not any(word in lower for word in _NOTHING_WORDS):
        return Emptiness.CONTENT
    found = _NOTHING.search(lower) is not None and _GOOD_NEWS.search(lower) is None
    return Emptiness.NOTHING if found else Emptiness.CONTENT
