"""The panels about what turns take, and what of it went into loops: the tokens of requests that were steps of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import names, queries
from dashboards.alerts import COSTLY_BY_SERVICE, COSTLY_FLOOR
from dashboards.health import NOT_REPORTING
from dashboards.panels import (
    SHARE,
    Column,
    bad_from,
    bars,
    conversations,
    lines,
    link,
    listing,
    number,
    runbook,
    spans,
)
from dashboards.recordings import ACCOUNT, BEYOND_MEDIAN, TURNS_OF_A_MEDIAN
from otel_loopguard import semconv

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

    from dashboards.panels import Steps

_UNKNOWN = (
    "not known, which is not zero: no model client is patched, or its responses carry no usage, as those of many "
    "streams."
)
_NO_PRICES = "not known: no usage, or the policy has no cost_per_million_tokens for these models."
_RUNS = "run-cost"
_OUTLIERS: Steps = [(None, "transparent"), (1, "orange")]
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


def turns() -> list[Builder[Panel]]:
    """Return the panels with what a turn takes, those that took far more than others first."""
    return [
        listing(
            "What a turn takes, outliers first",
            "By agent: the tokens, the cost, the started agents and the model requests of a turn, nested turns "
            f"included. *Beyond* is the most turns of an hour that took more than {BEYOND_MEDIAN} times the median of "
            "a week; *up to* is the bound of the bucket with the largest. A turn of which much is not known is left "
            "out. Click a service for its conversations, and a coloured number for what to do.",
            [
                Column("Service", label=names.JOB, url=conversations("var-job=${__data.fields.Service}")),
                Column("Agent", label=names.AGENT),
                Column("Of a turn", label=ACCOUNT),
                Column("Currency", label=names.CURRENCY),
                Column(
                    "Beyond", query=queries.TURNS_BEYOND, steps=[(None, "transparent"), (1, "orange")], runbook=_RUNS
                ),
                Column("Median", query=queries.TURN_MEDIAN, unit="short"),
                Column("p95", query=queries.TURN_P95, unit="short"),
                Column("Up to", query=queries.TURN_MOST, unit="short"),
            ],
            sort_by=["Beyond", "Up to"],
            empty=f"no turn has ended whose model requests were read. {NOT_REPORTING}",
        )
        .height(9)
        .span(24),
        lines(
            COSTLY_BY_SERVICE,
            f"Turns of an hour that took more than {BEYOND_MEDIAN} times the median of their agent, in the account "
            f"with the most of them. From the dashed line ({COSTLY_FLOOR}) on a ticket is due, if it is not usual for "
            "the service.",
            {_SERVICE: queries.COSTLY_TURNS},
            limit=COSTLY_FLOOR,
            sorted_legend=True,
            empty=f"no agent has ended {TURNS_OF_A_MEDIAN} turns in a week, as a median takes. {NOT_REPORTING}",
        )
        .data_links([link("Conversations of this service", conversations(f"var-job=${{__field.labels.{names.JOB}}}"))])
        .links([runbook(_RUNS)]),
        bars(
            "Budgets that were spent",
            "Trips of run_budget by the account that was spent, and by what was done: told before it, concluded at it, "
            "ended if the run went on.",
            {f"{{{{{names.BUDGET_ACCOUNT}}}}} · {{{{{names.ACTION}}}}}": queries.BUDGET_TRIPS},
            empty="no budget was spent in this time range, or the policy has none.",
        ),
    ]


def costly_turns() -> Builder[Panel]:
    """Return the panel with the spans of the turns that made most requests."""
    return spans(
        "Turns with many requests",
        f"Turns that made {queries.COSTLY_TURN_REQUESTS} requests to models or more, with those of their agents: what "
        "each took. Click the trace to read it.",
        queries.COSTLY_TURN_SPANS,
        sort_by=semconv.TURN_REQUESTS,
        empty="no such turn, or the collector does not send to this Tempo (collector-config-tempo.yaml).",
    )


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
