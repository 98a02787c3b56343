"""A real Chromium, headless, with an empty profile; required where LOOPGUARD_REQUIRE_BROWSER is 1."""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1300,900",
)  # fmt: skip
_DRAWN = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0])))"


class Page:
    """One report, open in the browser."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        self.path = path

    def open(self) -> Page:
        """Load it, with nothing left of what was logged before."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(self.path.as_uri())
        return self.drawn()

    def drawn(self) -> Page:
        """Wait until the browser has drawn the last change."""
        self.driver.execute_async_script(_DRAWN)
        return self

    def js(self, expression: str) -> Any:
        """Evaluate an expression on the page."""
        return self.driver.execute_script(f"return {expression}")

    def text(self, selector: str) -> str:
        """The text that a user reads there."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> Page:
        """Click on an element."""
        self.js(f"document.querySelector({json.dumps(selector)}).click()")
        return self.drawn()

    def choose(self, name: str, value: str) -> Page:
        """Set a field of the form above the turns as a user does."""
        field = f"document.forms.controls.elements[{json.dumps(name)}]"
        self.js(f"({field}.value = {json.dumps(value)}, {field}.dispatchEvent(new Event('input', {{bubbles: true}})))")
        return self.drawn()

    def keys(self, *keys: str) -> Page:
        """Keys as the keyboard sends them, to whatever has the focus."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
        return self.drawn()

    def inked(self, canvas: str) -> int:
        """The number of points of a canvas that are not empty."""
        return int(
            self.js(f"""(() => {{
                const canvas = document.querySelector({json.dumps(canvas)});
                const {{ data }} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                let inked = 0;
                for (let at = 3; at < data.length; at += 4) inked += data[at] > 0;
                return inked;
            }})()""")
        )

    def steps(self) -> int:
        """The number of blocks of code that the page's scripts have entered since the last call of this."""
        scripts = self.driver.execute_cdp_cmd("Profiler.takePreciseCoverage", {})["result"]
        functions = [one for script in scripts if script["url"] == self.path.as_uri() for one in script["functions"]]
        return sum(block["count"] for one in functions for block in one["ranges"])

    def complaints(self) -> list[str]:
        """The messages on the browser's console."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """The URLs that the page requested, except its own address."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        own = self.path.as_uri()  # the browser's own first page also makes requests: they are not the page's
        return {one["request"]["url"] for one in sent if one["documentURL"] == own} - {own, "data:,"}


def _missing() -> str | None:
    if find_spec("selenium") is None:
        return "selenium is not installed"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed: .ci/browser installs it" if lacking else None


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    missing = _missing()
    if missing and os.environ.get("LOOPGUARD_REQUIRE_BROWSER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    # Page.steps counts blocks only in functions that were compiled after this.
    browser.execute_cdp_cmd("Profiler.enable", {})
    browser.execute_cdp_cmd("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})
    yield browser
    browser.quit()


@pytest.fixture
def opened(driver: Any, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Writes a report of these runs, and opens it."""

    def made(*runs: report.Run, **more: Any) -> Page:
        written = report.Report(tmp_path / "report.html")
        for run in runs:
            written.add(run)
        written.write(**more)
        return Page(driver, written.path).open()

    yield made
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
