"""The words of a result that is not done yet, and of one that is over."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.vocabulary import Outcome

WORDS = Contracts(Policy()).pending
MORE = " and more" * 40


def facts(result, words=WORDS):
    """Return the facts about one result."""
    return outcome_facts(Outcome(result), {}, Fingerprinter(b"k" * 32), words)


@pytest.mark.parametrize(
    "text",
    [
        "pending", "state: In-Progress", "7%", "not_yet_ready", '{"ready": false}', "done=no", '{"completed": "no"}',
        "   Compiling stella-core v0.1.0", "Loading...", "state: restoring", "> vite\nstarting ...",
        "Waiting for rollout to finish: 0 of 3 updated replicas are available...", "2/3 pods running",
        "Zustand: in Bearbeitung", "der Auftrag läuft", '{"etat": "en cours"}', "estado: en proceso", "em andamento",
        "stato: in corso", "状态: 处理中", "ただいま処理中です",
    ],
)  # fmt: skip
def test_a_short_result_may_say_that_it_is_not_done(text):
    """A word of the list, a share, a part of a whole, or a denied "done" is pending; in a long result it is content."""
    assert facts(text).pending
    assert not facts(text + MORE).pending


@pytest.mark.parametrize(
    "text",
    [
        "done: nothing left", "ready", "done: true", "100 %", "depending", "no, it is done", "downloading",
        "3 of 3 ready", "12 of 40", "loaded", "完了",
    ],
)  # fmt: skip
def test_other_results_do_not(text):
    """Neither a part of a word, a whole, nor a "done" without a denial is pending."""
    assert not facts(text).pending


@pytest.mark.parametrize(
    "text", ["status: failed", "Job finished.", "exited", "Zustand: abgeschlossen", "状态: 已完成"]
)
def test_a_short_result_may_say_that_it_is_over(text):
    """Nothing is left to wait for."""
    assert facts(text).over
    assert not facts(text + MORE).over


@pytest.mark.parametrize(
    "text", ['{"succeeded": 3, "failed": 0}', "failed: 0", "running, 2 finished", "unfinished", "healthy"]
)
def test_a_count_of_what_is_over_is_no_end(text):
    """Nor is a result that is pending."""
    assert not facts(text).over


def test_a_policy_adds_words_of_its_own_language():
    """Words that a policy adds are found next to those of the list."""
    words = Contracts(Policy(words={"pending": ("arbetar",)})).pending
    assert facts("Jobbet ARBETAR.", words=words).pending
    assert facts("queued", words=words).pending
    assert not facts("Jobbet arbetar.").pending
