"""The arguments of ``otel-loopguard watch --kafka``."""

from __future__ import annotations

import argparse

import pytest

from otel_loopguard.cli.watch.kafka_settings import GROUP, KafkaSettings, configure
from otel_loopguard.errors import LoopGuardError


def settings(*arguments):
    parser = argparse.ArgumentParser()
    configure(parser)
    return KafkaSettings.of(parser.parse_args(["--kafka", "one:9092,two:9092", "spans", *map(str, arguments)]))


def test_brokers_and_topic_are_enough():
    """The group has a name of its own, so that several consumers share the work without any other argument."""
    assert settings() == ("one:9092,two:9092", "spans", GROUP, {})


def test_properties_come_from_a_file_and_from_arguments(tmp_path):
    """An argument takes precedence over the file; a value may have an equals sign."""
    file = tmp_path / "client.properties"
    file.write_text("# of the test cluster\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\nclient.id=file\n")
    read = settings("--kafka-config-file", file, "--kafka-config", "client.id=argument", "--kafka-group", "g")
    assert read.config == {"security.protocol": "SASL_SSL", "sasl.password": "a=b", "client.id": "argument"}
    properties = read.properties()
    assert properties["group.id"] == "g"
    assert properties["sasl.password"] == "a=b"
    assert properties["enable.auto.commit"] is False


def test_a_property_replaces_a_default_of_ours():
    """The session time-out, for example, decides how long the partitions of a killed consumer wait."""
    assert settings("--kafka-config", "session.timeout.ms=6000").properties()["session.timeout.ms"] == "6000"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("group.id", "it is set by --kafka-group"),
        ("bootstrap.servers", "it is the first value of --kafka"),
        ("enable.auto.commit", "an offset is committed after its spans are judged"),
    ],
)
def test_a_property_with_an_argument_of_its_own_is_refused(name, reason):
    """The error says where it is set."""
    with pytest.raises(LoopGuardError, match=f"cannot set {name}: {reason}"):
        settings("--kafka-config", f"{name}=x").properties()


def test_a_property_without_a_value_is_refused_and_not_quoted():
    """It may be a password."""
    with pytest.raises(LoopGuardError, match="NAME=VALUE") as raised:
        settings("--kafka-config", "hunter2")
    assert "hunter2" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """The error has its path."""
    with pytest.raises(LoopGuardError, match=r"--kafka-config-file .*missing cannot be read"):
        settings("--kafka-config-file", tmp_path / "missing")
