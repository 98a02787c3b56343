"""Count the requests to paths of models' APIs that no client sends which the guard reads, such as HTTP by hand."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from otel_loopguard.instrumentation.model_request import is_owned
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.targets import CallTarget
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from otel_loopguard.instrumentation.targets import Original

_ENDING: Final = re.compile(
    r"/chat/completions$|/responses$|/messages$|/api/chat$|/converse(?:-stream)?$|:(?:g|streamG)enerateContent$"
)


class _Sender(NamedTuple):
    """A function that sends a request over HTTP."""

    module: str
    path: str
    read: Callable[..., tuple[Any, Any]]
    """Return the method and the address, from the function's arguments without the instance."""


_SENDERS = (
    _Sender("http.client", "HTTPConnection.putrequest", lambda method, url, *_, **__: (method, url)),
    *(
        _Sender(module, f"{client}.send", lambda request, *_, **__: (request.method, request.url))
        for module in ("httpx", "httpx2")
        for client in ("Client", "AsyncClient")
    ),
    _Sender("aiohttp.client", "ClientSession._request", lambda method, url, *_, **__: (method, url)),
)


def listen(sent: Counter[str]) -> None:
    """Count each such request in ``sent``, by the end of its path."""
    Patches(CallTarget(one.module, one.path, partial(_counting, sent, one)) for one in _SENDERS).install()


def _counting(sent: Counter[str], sender: _Sender, original: Original) -> Callable[..., Any]:
    shield = Shield()

    def send(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        with shield("doctor.request"):
            method, address = sender.read(*args, **kwargs)
            found = _ENDING.search(urlsplit(str(address)).path) if str(method).upper() == "POST" else None
            if found is not None and not is_owned():
                sent[found[0]] += 1
        return wrapped(*args, **kwargs)

    return send
