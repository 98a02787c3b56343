"""Panels on what loops cost: the tokens of the model requests that were steps of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import names, queries
from dashboards.panels import number, over_time, top_list

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

_UNKNOWN = "Not known: no model client is patched, or its responses carry no usage"
_NO_PRICES = "Not known: no usage, or the policy has no cost_per_million_tokens for these models"
_SERVICE = f"{{{{{names.JOB}}}}}"


def tokens() -> list[Builder[Panel]]:
    """The panels of the row."""
    return [
        number(
            "Tokens in loops",
            "Tokens of model requests whose calls were all refused, or were repeats without news. Empty, and not zero, "
            "where no model client is patched or the responses carry no usage, as those of many streams.",
            queries.TOKENS_IN_LOOPS,
            steps=[(None, "green"), (1, "orange")],
            empty=_UNKNOWN,
        ),
        number(
            "Share of tokens in loops",
            "Tokens of steps of loops, of all tokens that are known.",
            queries.TOKEN_SHARE,
            unit="percentunit",
            steps=[(None, "green"), (0.1, "orange")],
            empty=_UNKNOWN,
        ),
        number(
            "Cost in loops",
            "The same tokens at the prices of the policy (cost_per_million_tokens), in its currency.",
            queries.COST_IN_LOOPS,
            steps=[(None, "green")],
            empty=_NO_PRICES,
        ),
        number(
            "Not spent, for each further step (estimate)",
            "Runs that the guard ended, times the mean tokens of a step of a loop: what one more step of each would "
            "have cost. An agent that is left alone makes as many as its framework lets it.",
            queries.TOKENS_NOT_SPENT,
            empty="Not known: no step of a loop with known tokens",
        ),
        number(
            "Requests without usage",
            "Share of the model requests whose tokens are not all known; the other figures of this row leave these "
            "out.",
            queries.UNKNOWN_USAGE_SHARE,
            unit="percentunit",
            steps=[(None, "green"), (0.5, "orange")],
            empty="No model request: no model client is patched",
        ).span(8),
        over_time(
            "Tokens by step",
            "Tokens in 5 minutes: work, and steps of loops.",
            {f"{{{{{names.LOOP_OR_WORK}}}}}": queries.TOKENS_BY_STEP},
            bars=True,
            empty=_UNKNOWN,
        ),
        over_time(
            "Tokens in loops, by service",
            "Tokens of steps of loops in 5 minutes.",
            {_SERVICE: queries.LOOP_TOKENS_BY_SERVICE},
            empty=_UNKNOWN,
        ),
        top_list(
            "Tokens in loops, by model",
            "The models with the most tokens in steps of loops.",
            queries.TOP_MODELS,
            f"{{{{{names.MODEL}}}}}",
            empty=f"No token in a loop. {_UNKNOWN}",
        ),
        over_time(
            "Cost in loops, by service",
            "Cost of steps of loops in 5 minutes, in the currency of the policy's prices.",
            {_SERVICE: queries.LOOP_COST_BY_SERVICE},
            empty=_NO_PRICES,
        ),
    ]
