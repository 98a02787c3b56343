"""The callback of LiteLLM's proxy. It is imported only by the proxy.

Never define ``async_post_call_streaming_hook`` here: the proxy then writes each chunk of a stream anew, and an event of
a chat comes out empty. The iterator hook is not needed either: all that a stream tells is in the log of its success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litellm.integrations.custom_logger import CustomLogger  # type: ignore[import-not-found]  # it is in the proxy only

from otel_loopguard.gateway.gateway import REFUSED, alearn, fail, headers_of_reply, judge, learn
from otel_loopguard.gateway.refusal import fields, message
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.semconv import ERROR_REFUSED
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from otel_loopguard.errors import RunStopped


class LoopGuard(CustomLogger):  # type: ignore[misc]  # the base class is in the proxy only
    """Guard every agent that asks its model through this proxy."""

    def __init__(self) -> None:
        super().__init__()
        with Shield()("gateway.start"):
            active_runtime.get()  # at start, so that mistakes in the policy are logged there

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> None:  # noqa: ARG002 - the proxy's signature
        """Judge a request, once for all its retries and fallbacks. Change it in place; raise if its turn is over."""
        error = await judge(user_api_key_dict, data, str(getattr(call_type, "value", call_type)))
        if error is not None:
            raise _exception(error)

    async def async_post_call_success_hook(self, data: Any, user_api_key_dict: Any, response: Any) -> None:  # noqa: ARG002 - the proxy's signature
        """Learn the calls of a whole reply before the client has it: the next request may go to another replica."""
        await alearn(response, data.get("litellm_call_id"))

    async def async_post_call_failure_hook(self, request_data: Any, *_: Any, **__: Any) -> None:
        """Note that a request has failed, with all its retries and fallbacks, or the stream of its reply."""
        fail(request_data.get("litellm_call_id"))

    async def async_post_call_response_headers_hook(
        self,
        data: Any,
        user_api_key_dict: Any,  # noqa: ARG002 - the proxy's signature
        response: Any,  # noqa: ARG002 - as above
        request_headers: Any = None,  # noqa: ARG002 - as above
    ) -> dict[str, str] | None:
        """Return the header that tells how the turn ended, for a whole reply. An old LiteLLM does not ask."""
        return headers_of_reply(data.get("litellm_call_id"))

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002 - the proxy's signature
        """Learn the calls and the tokens of a reply, streamed or not."""
        learn(response_obj, kwargs.get("litellm_call_id"))


def _exception(error: RunStopped) -> Exception:
    """Return the exception that the proxy answers with HTTP 400. Any other class becomes a 500, which clients retry."""
    from litellm.proxy._types import ProxyException  # type: ignore[import-not-found]  # noqa: PLC0415 - loads the proxy

    refused = ProxyException(
        message=message(error),
        type=ERROR_REFUSED,
        param=None,
        code=400,
        headers=dict(REFUSED),
        provider_specific_fields=fields(error),
    )
    refused.status_code = 400  # LiteLLM 1.80 wraps the exception in another one, with this code
    return cast("Exception", refused)
