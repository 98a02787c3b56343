"""Alertmanager, run with the repository's own configuration, and the webhook it posts to."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml

from .process import Program, free_ports
from .programs import ROOT, need

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = ROOT / "dashboards" / "alertmanager" / "alertmanager.yml"


class Webhook:
    """Remembers what was posted to which path."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen on a free port."""
        posts = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """The port of the HTTP server."""
        assert self._server, "not started"
        return self._server.server_port

    def stop(self) -> None:
        """Listen no more."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def alerts(self, path: str, name: str, status: str) -> list[dict[str, Any]]:
        """The alerts of one name and status that were posted to a path."""
        posted = [alert for where, body in self.posts if where == path for alert in body["alerts"]]
        return [each for each in posted if each["labels"]["alertname"] == name and each["status"] == status]


class Alertmanager(Program):
    """An Alertmanager that posts without delay."""

    def __init__(self, folder: Path, webhook: Webhook) -> None:
        (self.port,) = free_ports(1)
        config = folder / "alertmanager.yml"
        config.write_text(yaml.safe_dump(quick_config(webhook)))
        command = [
            need("alertmanager"),
            f"--config.file={config}",
            f"--storage.path={folder / 'alertmanager-data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        super().__init__(command, folder / "alertmanager.log", {}, f"http://127.0.0.1:{self.port}/-/ready")


def quick_config(webhook: Webhook) -> dict[str, Any]:
    """The repository's configuration with our webhook's address and shorter waits, and nothing else changed."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        for hook in receiver["webhook_configs"]:
            hook["url"] = hook["url"].replace(":9095/", f":{webhook.port}/")
    return config
