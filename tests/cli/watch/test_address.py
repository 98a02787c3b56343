"""Addresses to listen at, as users write them."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.watch.address import ListenAddress, cannot_listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":4317", ListenAddress("127.0.0.1", 4317)),
        ("4317", ListenAddress("127.0.0.1", 4317)),
        ("[]:4317", ListenAddress("127.0.0.1", 4317)),
        ("0.0.0.0:4317", ListenAddress("0.0.0.0", 4317)),
        ("[::]:4317", ListenAddress("::", 4317)),
        ("127.0.0.1:4317", ListenAddress("127.0.0.1", 4317)),
        ("[::1]:4317", ListenAddress("::1", 4317)),
        ("collector.example:0", ListenAddress("collector.example", 0)),
    ],
)
def test_an_address_has_a_port_and_may_have_a_host(text: str, address: ListenAddress) -> None:
    """It is parsed, and shown with its port. Without a host it is of this machine only."""
    assert ListenAddress.parse(text) == address
    assert str(address).endswith(f":{address.port}")


@pytest.mark.parametrize("text", ["", "host", "host:", "host:http", ":65536", "::1:4317", "http://host:4317", ":-1"])
def test_no_other_text_is_an_address(text: str) -> None:
    """It is refused, and not taken for another address."""
    with pytest.raises(ValueError, match="no address"):
        ListenAddress.parse(text)


@pytest.mark.parametrize(
    ("text", "is_everywhere"),
    [
        ("0.0.0.0:1", True),
        ("[::]:1", True),
        ("0:1", True),
        (":1", False),
        ("[::1]:1", False),
        ("10.0.0.1:1", False),
        ("collector.example:1", False),
    ],
)
def test_all_interfaces_are_told_from_one(text: str, *, is_everywhere: bool) -> None:
    """Short forms that systems take are known, too."""
    assert ListenAddress.parse(text).is_everywhere is is_everywhere


@pytest.mark.parametrize(("port", "other"), [(4317, 14317), (60000, 50000)])
def test_the_error_of_a_taken_port_names_another_one(port: int, other: int) -> None:
    """The remedy can be copied."""
    assert f"--otlp 127.0.0.1:{other}," in str(
        cannot_listen("--otlp", ListenAddress("127.0.0.1", port), "it is in use")
    )
