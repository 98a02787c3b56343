"""A caller is known by what the proxy has checked; a header of the client's tells its conversations apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from otel_loopguard.gateway.callers import caller_of, headers_of

ALICE = {"api_key": "hash-1", "team_id": "red", "org_id": "o", "user_id": "u"}


@pytest.mark.parametrize("other", [{"api_key": "hash-2"}, {"team_id": "blue"}, {"org_id": "p"}, {"user_id": "v"}])
def test_each_part_of_the_identity_makes_another_tenant(other):
    """Two teams may use one key, and two keys may be of one team."""
    one, two = (caller_of(SimpleNamespace(**identity), {}) for identity in (ALICE, {**ALICE, **other}))
    assert one.tenant != two.tenant


def test_the_words_of_a_client_are_no_part_of_a_tenant():
    """The body's user, its metadata and LiteLLM's session are the client's to choose."""
    plain = caller_of(SimpleNamespace(**ALICE), {})
    claimed = caller_of(
        SimpleNamespace(**ALICE, end_user_id="bob"), {"x-litellm-session-id": "s", "x-litellm-end-user-id": "bob"}
    )
    assert claimed == plain


def test_the_header_names_a_conversation_of_the_tenant():
    """It is cut where it is too long to be an id."""
    found = caller_of(SimpleNamespace(**ALICE), {"x-loopguard-conversation": "c" * 10_000})
    assert found.tenant == caller_of(SimpleNamespace(**ALICE), {}).tenant
    assert found.conversation_id == "c" * 256


@pytest.mark.parametrize("data", [{}, {"proxy_server_request": None}, {"proxy_server_request": {"headers": None}}])
def test_a_request_without_headers_has_none(data):
    """An internal request of the proxy has no client."""
    assert headers_of(data) == {}


def test_an_identity_that_lacks_everything_is_a_tenant_too():
    """A proxy without keys serves one tenant."""
    assert caller_of(SimpleNamespace(), {}) == caller_of(SimpleNamespace(api_key=None), {})
