"""A model request costs what the policy says, and nothing is known of a model that it does not name."""

from __future__ import annotations

import dataclasses

import pytest

from otel_loopguard import Policy
from otel_loopguard.engine.policy.prices import Prices
from otel_loopguard.engine.vocabulary import MOST_TOKENS, Usage
from otel_loopguard.policy_files.load import load_text

PRICES = {"gpt-*": {"input": 2.0, "output": 10.0}, "gpt-mini*": {"input": 1.0, "output": 4.0, "cached_input": 0.1}}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage("gpt-5", 500_000, 250_000), 3.5),
        (Usage("gpt-mini-5", 500_000, 250_000), 1.5),
        (Usage("gpt-mini-5", 500_000, 250_000, 300_000), 1.23),
        (Usage("gpt-5", 500_000, 250_000, 300_000), 3.5),
        (Usage("gpt-5", 500_000, None), 1.0),
        (Usage("gpt-5", None, 100_000), 1.0),
        (Usage("gpt-5", 100, 0, 10**6), 0.0002),
        (Usage("gpt-5"), None),
        (Usage("GPT-5", 1, 1), None),
        (Usage("", 1, 1), None),
        (Usage("claude", 500_000, 250_000), None),
    ],
)
def test_a_request_costs_what_its_tokens_cost(usage: Usage, cost: float | None) -> None:
    """Input, cached input and output have their own price; the most specific name of the model wins."""
    assert Prices(PRICES).cost(usage) == pytest.approx(cost)
    assert Prices(dict(reversed(PRICES.items()))).cost(usage) == pytest.approx(cost)


def test_without_prices_there_is_no_cost() -> None:
    """No price is built in."""
    assert Prices(Policy().cost_per_million_tokens).cost(Usage("gpt-5", 1, 1)) is None


def test_a_policy_file_and_code_give_the_same_prices() -> None:
    """Whole numbers are taken, too, and a policy can be copied."""
    text = """
    [cost_per_million_tokens]
    "gpt-4.1*" = { input = 2, output = 8, cached_input = 0.5 }
    """
    in_code = Policy(cost_per_million_tokens={"gpt-4.1*": {"input": 2, "output": 8, "cached_input": 0.5}})
    loaded = load_text(text)
    assert loaded.problems == ()
    assert loaded.policy == in_code == dataclasses.replace(in_code)
    assert loaded.policy.cost_per_million_tokens == {"gpt-4.1*": {"input": 2.0, "output": 8.0, "cached_input": 0.5}}


@pytest.mark.parametrize("text", ["usd", "US", "EURO", "€", "U$D", ""])
def test_a_currency_is_a_code_of_three_letters(text: str) -> None:
    """It is a label of metrics: any text would make series."""
    (problem,) = load_text(f'currency = "{text}"\n').problems
    assert "must be a code of three capital letters (ISO 4217), such as USD" in str(problem)
    assert load_text('currency = "USD"\n').policy.currency == "USD"


@pytest.mark.parametrize(
    ("text", "remedies"),
    [
        ("'gpt*' = { input = -1, output = 1 }", ["must be a number, 0 or more"]),
        ("'gpt*' = { input = 1, output = 'two' }", ["must be a number, 0 or more"]),
        ("'gpt*' = { input = 1 }", ["the price of output is missing"]),
        ("'gpt*' = {}", ["the price of input and of output is missing"]),
        ("'gpt*' = { input = 1, outptu = 2, output = 2 }", ["no such price; did you mean output?"]),
        ("'gpt*' = 3", ['must be a table: [cost_per_million_tokens."gpt*"]']),
        ("'gpt[' = { input = 1, output = 2 }", ['must be a glob of model names, such as "gpt-5*"']),
        (
            "gpt-4.1 = { input = 1, output = 2 }",
            ["has a dot is put in quotes", "the price of input and of output is missing"],
        ),
    ],
)
def test_each_mistake_in_a_price_has_its_remedy(text: str, remedies: list[str]) -> None:
    """Also a name with a dot that is not in quotes, which TOML takes for two tables."""
    problems = load_text(f"[cost_per_million_tokens]\n{text}", "loop.toml").problems
    assert len(problems) == len(remedies)
    for problem, remedy in zip(problems, remedies, strict=True):
        assert str(problem).startswith("loop.toml, line 2: cost_per_million_tokens.")
        assert remedy in str(problem)


@pytest.mark.parametrize("value", [True, -1, 1.5, "7", None, object(), MOST_TOKENS + 1])
def test_a_figure_that_is_no_number_of_tokens_is_unknown(value: object) -> None:
    """Servers and fakes put anything there, and one wrong number would spoil a sum for good."""
    assert Usage.of("gpt", value, value, value) == Usage("gpt")
    assert Usage.of(value, 3, 0, 2) == Usage("7" if value == "7" else "", 3, 0, 2)
