"""The panels about what loops cost: the tokens of the model requests that were steps of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import names, queries
from dashboards.panels import SHARE, Column, bad_from, bars, listing, number

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

_UNKNOWN = (
    "not known, which is not zero: no model client is patched, or its responses carry no usage, as those of many "
    "streams."
)
_NO_PRICES = "not known: no usage, or the policy has no cost_per_million_tokens for these models."
_SERVICE = f"{{{{{names.JOB}}}}}"
_CURRENCY = f"{{{{{names.CURRENCY}}}}}"


def figures() -> list[Builder[Panel]]:
    """Return the panels with one number each."""
    return [
        number(
            "Tokens in loops",
            "Tokens of model requests whose calls were all refused, or were repeats without news.",
            queries.TOKENS_IN_LOOPS,
            unit="short",
            steps=bad_from(1, "orange"),
            width=3,
            empty=_UNKNOWN,
        ),
        number(
            "Share of tokens",
            "Tokens of steps of loops, of all tokens that are known.",
            queries.TOKEN_SHARE,
            unit=SHARE,
            steps=bad_from(0.1, "orange"),
            width=3,
            empty=_UNKNOWN,
        ),
        number(
            "Cost in loops",
            "The tokens with a price, at the prices of the policy (cost_per_million_tokens), by its currency.",
            queries.COST_IN_LOOPS,
            unit="short",
            legend=_CURRENCY,
            width=3,
            empty=_NO_PRICES,
        ),
        number(
            "Not spent (est.)",
            "An estimate in tokens, for each further step: the runs that the guard ended, times the mean tokens of a "
            "step of a loop. It is what one more step of each would have cost. An agent that is left alone makes as "
            "many as its framework lets it.",
            queries.TOKENS_NOT_SPENT,
            unit="short",
            width=3,
            empty="no step of a loop with known tokens.",
        ),
    ]


def charts() -> list[Builder[Panel]]:
    """Return the panels with the cost over time, by service and by model."""
    return [
        bars(
            "Tokens by step",
            "Work, and steps of loops.",
            {f"{{{{{names.LOOP_OR_WORK}}}}}": queries.TOKENS_BY_STEP},
            coloured=True,
            unit="short",
            empty=_UNKNOWN,
        ),
        listing(
            "By model",
            "The models of the requests: tokens in loops, their share of the model's tokens, their cost, and the share "
            "of the requests without known usage, which the other figures leave out.",
            [
                Column("Model", label=names.MODEL),
                Column("Requests", query=queries.MODEL_REQUESTS),
                Column("Loop tokens", query=queries.MODEL_TOKENS, unit="short"),
                Column("Share", query=queries.MODEL_SHARE, unit=SHARE),
                Column("Cost", query=queries.MODEL_COST, unit="short"),
                Column("No usage", query=queries.MODEL_UNKNOWN, unit=SHARE),
            ],
            sort_by=["Loop tokens"],
            empty="no model request: no model client is patched.",
        ),
        bars(
            "Tokens in loops, by service",
            "Tokens of steps of loops.",
            {_SERVICE: queries.LOOP_TOKENS_BY_SERVICE},
            unit="short",
            empty=f"no token in a loop. {_UNKNOWN}",
        ).span(8),
        number(
            "Tokens with a price",
            "The share of all known tokens whose model has a price in the policy (cost_per_million_tokens): *Cost in "
            "loops* is of these only.",
            queries.PRICED_SHARE,
            unit=SHARE,
            width=4,
            empty=_NO_PRICES,
        ),
        bars(
            "Cost in loops, by service",
            "Cost of steps of loops, in the policy's currency, if it names one.",
            {f"{_SERVICE} {_CURRENCY}": queries.LOOP_COST_BY_SERVICE},
            unit="short",
            empty=_NO_PRICES,
        ),
    ]
