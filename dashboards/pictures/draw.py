"""Draw a dashboard in a browser without a window, with the page that npm builds of Grafana's components."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
_INSTALL: Final = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
_BUILD: Final = ("npm", "run", "--silent", "build")
_PLACES: Final = {
    "/page/index.html": "page/index.html",
    "/page/": "node_modules/.page/",
    "/public/build/": "node_modules/@grafana/ui/dist/public/",
    "/public/fonts/roboto/": "node_modules/@fontsource/roboto-mono/files/roboto-mono-latin-400-normal.woff2",
    "/public/fonts/inter/Inter-Regular.woff2": "node_modules/@fontsource/inter/files/inter-latin-400-normal.woff2",
    "/public/fonts/inter/Inter-Medium.woff2": "node_modules/@fontsource/inter/files/inter-latin-500-normal.woff2",
}
"""The files and folders of the page, by what their addresses begin with."""
_PATIENCE: Final = 60
_REST: Final = 1.0
_DRAWN: Final = "return document.querySelector('[data-drawn]') && !document.querySelector('[data-waiting]')"


def build() -> None:
    """Build the page. Grafana's packages are fetched when they are not there."""
    if not (HERE / "node_modules" / "@grafana").exists():
        subprocess.run(_INSTALL, cwd=HERE, check=True)  # noqa: S603 - a constant
    subprocess.run(_BUILD, cwd=HERE, check=True)  # noqa: S603 - a constant


@contextmanager
def page() -> Iterator[str]:
    """Serve the page for a block, and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/page/index.html"
    finally:
        server.shutdown()
        server.server_close()


def draw(address: str, state: dict[str, Any], size: tuple[int, int]) -> bytes:
    """Return the first screen of a dashboard, of so many pixels, as PNG."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    width, height = size
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, Driver(shutil.which("chromedriver")))
    try:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(address)
        browser.execute_script("window.draw(arguments[0])", state)
        WebDriverWait(browser, _PATIENCE).until(_is_drawn)
        return _at_rest(browser)
    finally:
        browser.quit()


def _is_drawn(browser: webdriver.Chrome) -> bool:
    """Return True when each panel has its frames."""
    _check(browser)
    return bool(browser.execute_script(_DRAWN))


def _check(browser: webdriver.Chrome) -> None:
    """Raise ``RuntimeError`` for an error of the page."""
    log = browser.get_log("browser")  # type: ignore[no-untyped-call]  # of selenium
    errors = [line["message"] for line in log if line["level"] == "SEVERE"]
    if errors:
        raise RuntimeError("\n".join(errors))


def _at_rest(browser: webdriver.Chrome) -> bytes:
    """Return a picture when nothing moves: icons and fonts come a moment after the panels."""
    before, now = b"", browser.get_screenshot_as_png()
    while now != before:
        time.sleep(_REST)
        _check(browser)
        before, now = now, browser.get_screenshot_as_png()
    return now


class _Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        """Return the file at an address: of the page, of the bundle, or of a package."""
        begin = next((begin for begin in _PLACES if path.startswith(begin)), path)
        place = _PLACES.get(begin, "nothing")
        return str(HERE / place / path.removeprefix(begin) if place.endswith("/") else HERE / place)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
