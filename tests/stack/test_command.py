"""`otel-loopguard stack`: the files that are shipped, written out and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tomllib

from otel_loopguard.cli import stack as command
from otel_loopguard.cli.main import main

from .harness.programs import ROOT, need

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: object) -> int:
    """The command's exit status."""
    return main(["stack", *map(str, arguments)])


def test_export_writes_what_compose_and_prometheus_need(tmp_path: Path) -> None:
    """All files of the repository's stack, under the paths by which they name each other."""
    assert run("export", tmp_path) == 0

    written = {str(path) for path in command.files(tmp_path)}
    assert {"deploy/compose.yaml", "collector-config.yaml", "dashboards/prometheus/rules.yml"} <= written
    assert (tmp_path / "deploy/compose.yaml").read_bytes() == (ROOT / "deploy/compose.yaml").read_bytes()
    assert len(written) == len(command.files(ROOT)) >= 20


def test_export_again_changes_nothing(tmp_path: Path) -> None:
    """An upgrade over an untouched export needs no --force."""
    run("export", tmp_path)

    assert run("export", tmp_path) == 0


def test_export_does_not_overwrite_what_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that the user changed is named and not overwritten, except with --force."""
    run("export", tmp_path)
    own = tmp_path / "dashboards" / "alertmanager" / "alertmanager.yml"
    own.write_text("route: {receiver: mine}\n")

    assert run("export", tmp_path) == 2
    assert "alertmanager.yml" in capsys.readouterr().err
    assert own.read_text() == "route: {receiver: mine}\n"
    assert run("export", tmp_path, "--force") == 0
    assert "mine" not in own.read_text()


def test_alerts_link_to_the_grafana_that_is_named(tmp_path: Path) -> None:
    """The rules of Prometheus, their unit tests and the rules of Grafana link to it, and nothing else is changed."""
    run("export", tmp_path, "--grafana-url", "https://grafana.example.com/loops/")

    linking = {
        "dashboards/prometheus/rules.yml",
        "dashboards/prometheus/rules_test.yml",
        "dashboards/grafana/provisioning/alerting/loopguard.yaml",
    }
    for path in command.files(ROOT):
        shipped, written = (ROOT / path).read_text(), (tmp_path / path).read_text()
        if str(path) in linking:
            assert "https://grafana.example.com/loops/d/loopguard-overview" in written
            shipped = shipped.replace("http://127.0.0.1:3000", "https://grafana.example.com/loops")
        assert written == shipped


@pytest.mark.parametrize("address", ["grafana.example.com", "", "file:///etc"])
def test_an_address_without_http_is_refused(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The links in messages would lead nowhere."""
    with pytest.raises(SystemExit):
        run("export", tmp_path / "new", "--grafana-url", address)

    assert "must begin with http:// or https://" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("odd", ["\n", "\r", "\0", "\x1b", "\u2028", " # ", '"', "'", "{{", "$HOME", "ü"])
def test_an_address_that_would_be_more_than_a_text_of_yaml_is_refused(
    odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line break would begin a setting of its own."""
    with pytest.raises(SystemExit):
        run("export", tmp_path / "new", "--grafana-url", f"http://grafana:3000{odd}x: y")

    assert "has characters that may not stand in an address" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_an_address_may_have_a_port_a_path_and_a_query(tmp_path: Path) -> None:
    """These are all characters that links to Grafana have."""
    assert run("export", tmp_path, "--grafana-url", "https://me@[::1]:3000/a-b/~c%20d?orgId=1&x=(y)#z") == 0


@pytest.mark.parametrize("options", [[], ["--force"]])
@pytest.mark.parametrize("place", ["dashboards/alertmanager/alertmanager.yml", "dashboards/prometheus", "dashboards"])
def test_export_writes_through_no_symbolic_link(
    place: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A linked file or folder would be one outside of the export. Nothing is written then."""
    outside, target = tmp_path / "outside", tmp_path / "target"
    run("export", outside)
    (outside / place).rename(tmp_path / "kept")
    (target / place).parent.mkdir(parents=True)
    (target / place).symlink_to(tmp_path / "kept")
    linked = [path for path in (tmp_path / "kept", *(tmp_path / "kept").rglob("*")) if path.is_file()]
    for path in linked:
        path.write_text("mine")

    assert run("export", target, *options) == 2
    assert f"symbolic links; remove them:\n  {place}\n" in capsys.readouterr().err
    assert {path.read_text() for path in linked} == {"mine"}
    assert not (target / "deploy/compose.yaml").exists()


def test_the_folder_of_an_export_may_be_a_link(tmp_path: Path) -> None:
    """It is the one that the user names."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert run("export", tmp_path / "link") == 0
    assert (tmp_path / "real" / "deploy/compose.yaml").exists()


def with_one_test_of_the_rules(place: Path, expected: str = "") -> None:
    """Leave the rules one test, which takes no time: tests/stack/test_rules.py runs all."""
    test = f"{{interval: 15s, promql_expr_test: [{{expr: vector(1), eval_time: 0s, exp_samples: [{expected}]}}]}}"
    (place / "dashboards/prometheus/rules_test.yml").write_text(f"rule_files: [rules.yml]\ntests: [{test}]\n")


def test_check_accepts_what_is_shipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the collector and Prometheus's tools at hand, every file passes."""
    need("promtool"), need("amtool")
    run("export", tmp_path)
    with_one_test_of_the_rules(tmp_path, "{value: 1}")

    assert run("check", tmp_path, "--collector", need("collector")) == 0
    said = capsys.readouterr().out
    assert "failed" not in said
    for what in (
        "collector",
        "collector with a trace back end",
        "collector with a watcher",
        "collector that reads from Kafka",
        "collector that spreads the load",
        "Prometheus",
        "alert rules",
        "Alertmanager",
    ):
        assert f"ok       {what} (" in said


def test_check_refuses_broken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1, and the output names each that failed: here the sum of the rules' test is wrong, too."""
    need("promtool")
    run("export", tmp_path)
    with_one_test_of_the_rules(tmp_path, "{value: 2}")
    (tmp_path / "collector-config.yaml").write_text("receivers: {nonsense: {}}\n")
    (tmp_path / "dashboards/json/overview.json").write_text("{")

    assert run("check", tmp_path, "--collector", need("collector")) == 1
    failed = failures(capsys)
    for complaint in ("collector (", "alert rules (", "dashboards/json/overview.json is no JSON"):
        assert any(line.startswith(complaint) for line in failed), failed
    assert not any(line.startswith("Prometheus") for line in failed)


def test_check_refuses_rules_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1, and the configuration of Prometheus is named with the rules."""
    need("promtool")
    run("export", tmp_path)
    rules = "groups: [{name: x, rules: [{record: a:b, expr: 1 +}]}]\n"
    (tmp_path / "dashboards/prometheus/rules.yml").write_text(rules)

    assert run("check", tmp_path) == 1
    assert {line.partition(" (")[0] for line in failures(capsys)} == {"Prometheus", "alert rules"}


def failures(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the command has named as failed."""
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("failed").strip() for line in lines if line.startswith("failed")]


def test_check_says_what_it_could_not_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any of the programs that is said plainly; the files are still looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    run("export", tmp_path)

    assert run("check", tmp_path) == 0
    out = capsys.readouterr().out
    assert out.count("skipped  ") == len(command.CHECKS)
    assert "skipped  collector: no otelcol-contrib or otelcol-loopguard is installed\n" in out
    assert out.endswith("9 of 9 checks were skipped: their files may have faults.\n")
    assert run("check") == 0, "the files of the package"
    capsys.readouterr()
    (tmp_path / "deploy/compose.yaml").unlink()
    assert run("check", tmp_path) == 1
    assert "deploy/compose.yaml is missing" in capsys.readouterr().out


def test_an_installation_without_the_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error message refers to the wheel, and there is no traceback."""
    monkeypatch.setattr(command, "_PACKAGE", tmp_path / "site-packages" / "otel_loopguard")

    assert run("export", tmp_path) == 2
    assert "wheel" in capsys.readouterr().err


def test_the_wheel_holds_every_file() -> None:
    """pyproject.toml puts every file that the command writes into the wheel, under the same path."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    included = build["force-include"]
    prefixes = [source for source, target in included.items() if target == f"otel_loopguard/_stack/{source}"]
    left_out = [path for path in command.files(ROOT) if not any(path.is_relative_to(each) for each in prefixes)]

    assert left_out == []
