"""Draw the overview in four states: an incident, the same on a phone, healthy services, and a Prometheus without data.

    python -m dashboards.pictures                  # runs the services for 13 minutes, and draws them
    python -m dashboards.pictures --data FOLDER    # runs them only if the folder has no run yet

It needs what the tests of the stack need (``.ci/stack``), the package `openai`, npm, and Chromium with its driver.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dashboards.pictures import draw, incident, known
from dashboards.pictures.frames import Asker
from dashboards.pictures.services import HEALTHY
from tests.stack.harness.programs import ROOT
from tests.stack.harness.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

BOARD: Final = ROOT / "dashboards" / "json" / "overview.json"
IMAGES: Final = ROOT / "docs" / "images"
DESKTOP: Final = (1600, 900)
PHONE: Final = (400, 900)
RANGE: Final = 15
"""Minutes of the dashboards' time range."""


@dataclass(frozen=True)
class Picture:
    """One picture of the overview."""

    name: str
    size: tuple[int, int] = DESKTOP
    services: list[str] = field(default_factory=list)
    """The chosen services; none: All."""
    is_empty: bool = False
    """Of a Prometheus that has our rules, and nothing to scrape, at this moment; else at the end of the run."""


PICTURES: Final = (
    Picture("overview"),
    Picture("overview-phone", PHONE),
    Picture("overview-quiet", services=list(HEALTHY)),
    Picture("overview-empty", is_empty=True),
)


def main() -> None:
    """Run the services, if they have not been run, and draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of a run; it is made if it is not there")
    parser.add_argument("--minutes", type=float, default=13)
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    dashboard = json.loads(BOARD.read_text(encoding="utf-8"))
    known.check(dashboard)
    draw.build()
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        data = options.data or Path(folder) / "run"
        if not incident.ran(data):
            incident.run(data, options.minutes)
        empty = Path(folder) / "empty"
        empty.mkdir()
        with draw.page() as address, _prometheus(data) as full, _prometheus(empty) as without:
            for picture in PICTURES:
                prometheus, end = (without, time.time()) if picture.is_empty else (full, incident.ended(data))
                state = _state(picture, dashboard, prometheus, end)
                (options.out / f"{picture.name}.png").write_bytes(draw.draw(address, state, picture.size))


@contextmanager
def _prometheus(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with the data of a folder, which scrapes nothing."""
    server = Prometheus(folder)
    server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def _state(picture: Picture, dashboard: dict[str, Any], prometheus: Prometheus, end: float) -> dict[str, Any]:
    """Return what the page draws."""
    asker = Asker(prometheus, end - RANGE * 60, end, {"job": picture.services})
    chosen = {"datasource": "Prometheus", "job": " + ".join(picture.services) or "All"}
    variables = dashboard["templating"]["list"]
    return {
        "dashboard": dashboard,
        "from": (end - RANGE * 60) * 1000,
        "to": end * 1000,
        "timeRange": f"Last {RANGE} minutes",
        "variables": [{"label": each["label"], "value": chosen[each["name"]]} for each in variables],
        "frames": {panel["id"]: asker.frames(panel, dashboard) for panel in dashboard["panels"]},
        "known": {"transformations": sorted(known.TRANSFORMATIONS), "properties": sorted(known.PROPERTIES)},
    }


if __name__ == "__main__":
    main()
