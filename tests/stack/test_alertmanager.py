"""One message an incident: a real Alertmanager with the shipped routes and inhibitions."""

from __future__ import annotations

import json
import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dashboards.alerts import ALERTS

from .harness.alertmanager import Alertmanager, Webhook
from .harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEVERITIES = {alert.name: alert.severity for alert in ALERTS}


@pytest.fixture
def alerting(tmp_path: Path) -> Iterator[tuple[Alertmanager, Webhook]]:
    """An Alertmanager and the webhook that it posts to."""
    with ExitStack() as stopping:
        webhook = Webhook()
        webhook.start()
        stopping.callback(webhook.stop)
        alertmanager = Alertmanager(tmp_path, webhook)
        stopping.callback(alertmanager.stop)
        alertmanager.start()
        alertmanager.wait_ready()
        yield alertmanager, webhook


def fire(alertmanager: Alertmanager, *alerts: tuple[str, str]) -> None:
    """Send alerts by name and job, as Prometheus does."""
    body = [{"labels": {"alertname": name, "job": job, "severity": SEVERITIES[name]}} for name, job in alerts]
    request = urllib.request.Request(
        f"http://127.0.0.1:{alertmanager.port}/api/v2/alerts",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


def posted(webhook: Webhook) -> list[tuple[str, str, str]]:
    """The alerts of all messages: path, job and name."""
    return sorted(
        (path, alert["labels"]["job"], alert["labels"]["alertname"])
        for path, body in webhook.posts
        for alert in body["alerts"]
    )


def test_an_incident_of_a_service_is_one_page_and_no_ticket(alerting: tuple[Alertmanager, Webhook]) -> None:
    """All alerts that loops of a service raise become one; another service's ticket is delivered."""
    alertmanager, webhook = alerting
    page, ticket = ("/page", "shop", "LoopguardNotStopped"), ("/ticket", "docs", "LoopguardTripRatio")
    fire(alertmanager, ("LoopguardNotStopped", "shop"))
    wait_until("the page", lambda: posted(webhook) == [page])
    follow = ("TripSpike", "TripRatio", "BreakerOpen", "UnknownTools", "Refused", "WouldRefuse", "RunCost")
    fire(alertmanager, *((f"Loopguard{name}", "shop") for name in follow), ("LoopguardTripRatio", "docs"))

    expected = [page, ticket]
    wait_until("both messages", lambda: posted(webhook) == expected)
    time.sleep(3)  # three intervals of the groups
    assert posted(webhook) == expected


def test_while_the_collector_is_down_no_service_is_missed(alerting: tuple[Alertmanager, Webhook]) -> None:
    """One ticket instead of one for each service."""
    alertmanager, webhook = alerting
    expected = [("/ticket", "loopguard", "LoopguardCollectorDown")]
    fire(alertmanager, ("LoopguardCollectorDown", "loopguard"))
    wait_until("the ticket", lambda: posted(webhook) == expected)
    fire(alertmanager, *(("LoopguardServiceSilent", f"service-{number}") for number in range(20)))
    time.sleep(3)
    assert posted(webhook) == expected
