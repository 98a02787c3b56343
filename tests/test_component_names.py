"""Names of exporters and id generators that OpenTelemetry would not find."""

from __future__ import annotations

import pytest
from opentelemetry.sdk import _configuration as configuration

from otel_loopguard.component_names import correct, find_wrong_names

VARIABLES = {
    "OTEL_TRACES_EXPORTER": "traces",
    "OTEL_METRICS_EXPORTER": "metrics",
    "OTEL_LOGS_EXPORTER": "logs",
}


def corrected(environ):
    """A copy of the environment after the correction."""
    copy = dict(environ)
    correct(copy)
    return copy


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("bogus", "none"),
        ("bogus,console", "console"),
        ("otlp, bogus ,console", "otlp,console"),
        ("console,", "console"),
        ("none,console", "console"),
        ("OTLP", "none"),
        (",", "none"),
    ],
)
def test_wrong_names_are_left_out(variable, value, left):
    """The other names keep their order, and without any the value is ``none``."""
    assert corrected({variable: value}) == {variable: left}


@pytest.mark.parametrize(
    "environ",
    [
        *({variable: value} for variable in VARIABLES for value in ("", "none", " NONE ", " otlp , console")),
        {"OTEL_EXPORTER_OTLP_PROTOCOL": " http/protobuf "},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": ""},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_TRACES_EXPORTER": "otlp_proto_http",
         "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": ""},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
         "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc"},
        {"OTEL_PYTHON_ID_GENERATOR": " random"},
        {"OTEL_TRACES_SAMPLER": "bogus", "OTEL_PYTHON_DISTRO": "bogus", "OTEL_PROPAGATORS": "bogus"},
    ],
)  # fmt: skip
def test_a_valid_environment_stays_as_it_is(environ):
    """So does one with names that OpenTelemetry does not read, or replaces itself."""
    assert corrected(environ) == environ


@pytest.mark.parametrize("value", ["bogus", "", "random,random"])
def test_a_wrong_id_generator_becomes_the_default(value):
    """The SDK's default is random ids."""
    assert corrected({"OTEL_PYTHON_ID_GENERATOR": value}) == {"OTEL_PYTHON_ID_GENERATOR": "random"}


def test_exporters_of_an_unknown_protocol_are_left_out():
    """Also where a variable is missing, because the distribution would set ``otlp`` there. It is one mistake."""
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/xml", "OTEL_LOGS_EXPORTER": "console,otlp"}
    found = find_wrong_names(environ)
    assert [str(one) for one in found.wrong] == [
        "OTEL_EXPORTER_OTLP_PROTOCOL: there is no 'http/xml', only grpc, http/protobuf."
    ]
    assert found.values == {
        "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "console"
    }  # fmt: skip


def test_a_protocol_of_one_signal_concerns_that_signal():
    """The other signals keep their exporters."""
    environ = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/xml", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert find_wrong_names(environ).values == {"OTEL_TRACES_EXPORTER": "none"}


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("protocol", [None, "", " ", "grpc", "http/protobuf", "http/json"])
@pytest.mark.parametrize(
    "value", ["", " ", "none", "None ", "none,", "otlp", "otlp_proto_grpc", "bogus,otlp", "console,otlp", ",", "otlp,"]
)
def test_the_sdk_finds_what_is_left(monkeypatch, variable, protocol, value):
    """A value is changed exactly if the SDK itself fails on it, and it does not fail on the corrected one."""

    def fails() -> bool:
        group = f"opentelemetry_{VARIABLES[variable]}_exporter"
        try:
            configuration._import_config_components(configuration._get_exporter_names(VARIABLES[variable]), group)
        except RuntimeError:
            return True
        return False

    environ = {**dict.fromkeys(VARIABLES, "none"), variable: value}
    if protocol is not None:
        environ["OTEL_EXPORTER_OTLP_PROTOCOL"] = protocol
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    failed, left = fails(), corrected(environ)
    assert (left != environ) == failed
    monkeypatch.setenv(variable, left[variable])
    assert not fails()


@pytest.mark.parametrize("disabled", ["loopguard", "*", "redis, loopguard "])
def test_nothing_is_corrected_if_the_guard_is_not_to_be_loaded(disabled):
    """Without the guard, a wrong name has the effect that OpenTelemetry gives it."""
    environ = {"OTEL_TRACES_EXPORTER": "bogus", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": disabled}
    assert corrected(environ) == environ


def test_nothing_is_corrected_if_no_configurator_reads_the_names():
    """A program that sets OpenTelemetry up by itself may have names of its own."""
    environ = {"OTEL_TRACES_EXPORTER": "bogus", "OTEL_PYTHON_CONFIGURATOR": "there_is_none"}
    assert corrected(environ) == environ


def test_an_exporter_in_the_working_directory_is_found(monkeypatch, tmp_path):
    """``opentelemetry-instrument`` puts the working directory on the program's path."""
    info = tmp_path / "local-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: local\nVersion: 0\n", "utf-8")
    (info / "entry_points.txt").write_text("[opentelemetry_traces_exporter]\nlocal = local:Exporter\n", "utf-8")
    assert find_wrong_names({"OTEL_TRACES_EXPORTER": "local"}).wrong
    monkeypatch.chdir(tmp_path)
    assert not find_wrong_names({"OTEL_TRACES_EXPORTER": "local"}).wrong
