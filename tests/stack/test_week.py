"""One week of ordinary trouble: each page and ticket that is due comes once, in time, and no other comes."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dashboards import names

from .harness.alertmanager import CONFIG
from .test_rules import HOME, promtool
from .week import COSTS, DAY, HOUR, PARTS, WEEK, Due, Week, named, notation

if TYPE_CHECKING:
    from pathlib import Path

KNOWN_BY = f"alertname, {names.JOB}, {names.TOOL}"
FIRING = 'ALERTS{alertstate="firing"%s}'


STEPS = re.compile(
    r"sum_over_time\((sum by \([^)]*\) \()?last_over_time\(([^\[\]]+)\[1m\]\)(\))?\[(\d+)([mhd]):15s\]\) / 4"
)
MINUTES = {"m": 1, "h": HOUR, "d": DAY}


ABOUT_COSTS = re.compile("turns_took|turns_beyond_median|RunCost")


def rules_by_the_minute(*, of_costs: bool) -> dict[str, Any]:
    """The repository's rules as they are where each minute is evaluated: the growth of a minute is there once.

    What is usual is an average of the hours of a week, not of each five minutes. ``of_costs``: those about costs, with
    what they ask for; else all others.
    """

    def summed(found: re.Match[str]) -> str:
        by, series, closed, number, unit = found.groups(default="")
        return f"{by}sum_over_time({series}[{int(number) * MINUTES[unit] * 60 - 1}s]){closed}"

    rules: dict[str, Any] = yaml.safe_load((HOME / "rules.yml").read_text())
    every = {rule.get("record") or rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    wanted = {name for name in every if bool(ABOUT_COSTS.search(name)) is of_costs}
    for _ in range(len(every) if of_costs else 0):
        wanted |= {name for name in every if any(name in every[one] for one in wanted)}
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if (rule.get("record") or rule["alert"]) in wanted]
        for rule in group["rules"]:
            expr = STEPS.sub(summed, rule["expr"].replace("\n", " "))
            rule["expr"] = re.sub(r">= 259\b", ">= 21", expr.replace("[7d:5m]", "[7d:1h]"))
            assert ":15s" not in rule["expr"]
            rule.pop("annotations", None)
    return rules


def delivered() -> str:
    """Return the query of the alerts that Alertmanager sends: those that fire, but for what it inhibits."""
    query = FIRING % ""
    for rule in yaml.safe_load(CONFIG.read_text())["inhibit_rules"]:
        source, target = (FIRING % f",{','.join(rule[f'{kind}_matchers'])}" for kind in ("source", "target"))
        query += f"\nunless ({target} and on ({', '.join(rule.get('equal', ()))}) {source})"
    return query


def judged(week: Week, *, of_costs: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rules, with four more that compare what is delivered with what is due, and promtool's test of them."""
    series = week.series()
    week.due = [one for one in week.due if bool(ABOUT_COSTS.search(one.labels["alertname"])) is of_costs]
    for kind, minutes in (("due", must_fire), ("allowed", may_fire)):
        for labels in {tuple(each.labels.items()) for each in week.due}:
            of_alert = [minutes(each) for each in week.due if tuple(each.labels.items()) == labels]
            fires = [1.0 if any(minute in one for one in of_alert) else None for minute in range(WEEK + 1)]
            series[named(f"week_{kind}", **dict(labels))] = notation(fires)
    compared = {
        "week:sent": delivered(),
        "week:begun": f"week:sent unless on ({KNOWN_BY}) week:sent offset 1m",
        "week:false": f"week:sent unless on ({KNOWN_BY}) week_allowed",
        "week:missed": f"week_due unless on ({KNOWN_BY}) week:sent",
    }
    rules = rules_by_the_minute(of_costs=of_costs)
    rules["groups"][0]["rules"] += [{"record": name, "expr": query} for name, query in compared.items()]
    begun = Counter(tuple(each.labels.items()) for each in week.due)
    samples = [{"labels": named("", **dict(labels)), "value": number} for labels, number in begun.items()]
    expected = {"week:begun": samples, "week:false": [], "week:missed": []}
    tests = [
        {"expr": f"sum by ({KNOWN_BY}) (count_over_time({name}[7d]))", "eval_time": "7d", "exp_samples": expects}
        for name, expects in expected.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": tests}
    return rules, {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}


def must_fire(due: Due) -> range:
    """The minutes in which an alert fires at the latest, and at least."""
    return range(due.comes[1], due.ends[0])


def may_fire(due: Due) -> range:
    """The minutes in which it may fire."""
    return range(due.comes[0], due.ends[1] + 1)


@pytest.mark.parametrize("part", PARTS)
def test_the_pages_and_tickets_of_a_week_are_those_that_are_due(part: str, tmp_path: Path) -> None:
    """Of deploys, jobs, a broken tool, shadow mode, a frozen process, outages: none is missed, false or twice."""
    rules, tests = judged(Week(*PARTS[part]), of_costs=part == COSTS)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "week.yml").write_text(yaml.safe_dump(tests))
    result = promtool("test", "rules", "week.yml", cwd=tmp_path)

    assert result.returncode == 0, result.stdout
