"""Tell who sends a request to the proxy, by what the proxy has checked, and which conversation it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.turns.message_lists import Caller

if TYPE_CHECKING:
    from collections.abc import Mapping

CONVERSATION: Final = "x-loopguard-conversation"
"""The header with the client's id of a conversation. It only tells the conversations of one tenant apart."""
_LONGEST_ID: Final = 256


class Tenant(NamedTuple):
    """The identity of a caller. All of it has to be equal for two requests to share a turn."""

    key: str | None
    """The hash of the key, or the identity that ``custom_auth`` gives in its place."""
    team: str | None
    organisation: str | None
    user: str | None


def caller_of(auth: Any, headers: Mapping[str, Any]) -> Caller:
    """Return the caller of a request. ``auth`` is the proxy's ``UserAPIKeyAuth``; the client's body has no say."""
    tenant = Tenant(
        _text(auth, "api_key") or _text(auth, "token"),
        _text(auth, "team_id"),
        _text(auth, "org_id"),
        _text(auth, "user_id"),
    )
    conversation = headers.get(CONVERSATION)
    if not isinstance(conversation, str) or not conversation:
        return Caller(tenant)
    return Caller(tenant, conversation[:_LONGEST_ID])


def headers_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the headers of a request, with names in lower case."""
    headers = (data.get("proxy_server_request") or {}).get("headers") or {}
    return {str(name).lower(): value for name, value in headers.items()}


def _text(auth: Any, name: str) -> str | None:
    value = getattr(auth, name, None)
    return None if value is None else str(value)
