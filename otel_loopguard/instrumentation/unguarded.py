"""The agent frameworks, and clients of model providers, that have no patch.

A log line names a framework when it is imported. The line at exit names the clients in use if no call was seen, and the
doctor names both. No decision depends on this list.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.instrumentation.imports import when_imported
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import ModuleType

logger = logging.getLogger("otel_loopguard")

IN_REQUESTS, UNREAD = "in requests", "unread client"
"""``in requests``: the framework sends its requests through clients of its choice, and the patched ones are read.
``unread client``: a client that is not patched."""


_BOTO3: Final = "boto3"


class Unguarded(NamedTuple):
    """A framework or a client, by the name of its distribution."""

    distribution: str
    module: str
    judged: str = IN_REQUESTS


UNGUARDED = (
    Unguarded("ag2", "autogen"),
    Unguarded("atomic-agents", "atomic_agents"),
    Unguarded("beeai-framework", "beeai_framework"),
    Unguarded("browser-use", "browser_use"),
    Unguarded("camel-ai", "camel"),
    Unguarded("controlflow", "controlflow"),
    Unguarded("griptape", "griptape"),
    Unguarded("langroid", "langroid"),
    Unguarded("letta", "letta"),
    Unguarded("marvin", "marvin"),
    Unguarded("metagpt", "metagpt"),
    Unguarded("mini-swe-agent", "minisweagent"),
    Unguarded("mirascope", "mirascope"),
    Unguarded("openhands-ai", "openhands"),
    Unguarded("phidata", "phi"),
    Unguarded("praisonaiagents", "praisonaiagents"),
    Unguarded("pyautogen", "autogen"),
    Unguarded("qwen-agent", "qwen_agent"),
    Unguarded("swarms", "swarms"),
    Unguarded("upsonic", "upsonic"),
    # --- clients
    Unguarded("azure-ai-inference", "azure.ai.inference", UNREAD),
    Unguarded(_BOTO3, "botocore.handlers", UNREAD),
    Unguarded("cerebras-cloud-sdk", "cerebras.cloud.sdk", UNREAD),
    Unguarded("cohere", "cohere", UNREAD),
    Unguarded("dashscope", "dashscope", UNREAD),
    Unguarded("fireworks-ai", "fireworks", UNREAD),
    Unguarded("google-cloud-aiplatform", "vertexai.generative_models", UNREAD),
    Unguarded("google-generativeai", "google.generativeai", UNREAD),
    Unguarded("groq", "groq", UNREAD),
    Unguarded("huggingface-hub", "huggingface_hub.inference._client", UNREAD),  # the rest loads weights, too
    Unguarded("ibm-watsonx-ai", "ibm_watsonx_ai", UNREAD),
    Unguarded("mistralai", "mistralai", UNREAD),
    Unguarded("ollama", "ollama", UNREAD),
    Unguarded("replicate", "replicate", UNREAD),
    Unguarded("together", "together", UNREAD),
    Unguarded("xai-sdk", "xai_sdk", UNREAD),
    Unguarded("zhipuai", "zhipuai", UNREAD),
)


def installed(used_clients: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the facts of each one that is installed in this process's environment, ready for JSON."""
    for one in UNGUARDED:
        try:
            found = version(one.distribution)
        except PackageNotFoundError:
            continue
        imported = one.distribution in used_clients if one.judged == UNREAD else one.module in sys.modules
        yield {"name": one.distribution, "version": found, "judged": one.judged, "imported": imported}


_MODEL_CLIENT: Final = "creating-client-class.bedrock-runtime"
"""The event of ``botocore`` when a program makes a client for a model. For others it is imported without an agent."""
_warned: Final[set[str]] = set()


def watch_imports() -> None:
    """Log once for each framework that the program imports, now or later, and note each client that is not read."""
    for one in UNGUARDED:
        if one.distribution == _BOTO3:
            when_imported(one.module, _listen_to_sessions)
        elif one.judged == UNREAD:
            when_imported(one.module, partial(_note_client, one.distribution))
        else:
            when_imported(one.module, partial(_warn, one))


def _listen_to_sessions(handlers: ModuleType) -> None:
    """Add a handler to those with which each later session of ``botocore`` begins, once."""
    known, own = getattr(handlers, "BUILTIN_HANDLERS", None), (_MODEL_CLIENT, _note_session)
    if known is not None and own not in known:
        known.append(own)


def _note_session(**_event: object) -> None:
    with Shield()("import.boto3"):
        _note_client(_BOTO3)


def _note_client(distribution: str, _module: ModuleType | None = None) -> None:
    process_start.wake()
    if process_start.watcher is None:
        return
    from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - as below

    with suppress(PackageNotFoundError):
        active_runtime.unread_clients[distribution] = version(distribution)
        active_runtime.expects_calls = True


def _warn(one: Unguarded, _module: ModuleType) -> None:
    process_start.wake()
    if process_start.watcher is None:
        return
    from otel_loopguard.instrumentation.models import CLIENTS  # noqa: PLC0415 - the start of a process does not need it
    from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - as above

    runtime = active_runtime.instrumented
    if runtime is None or not runtime.guard.policy.action or one.module in _warned:
        return
    with suppress(PackageNotFoundError):  # a module of the program that happens to have the framework's name
        name = f"{one.distribution} {version(one.distribution)}"
        _warned.add(one.module)
        clients = ", ".join(package for client in CLIENTS for package in client.versions["newest"])
        logger.warning(
            "%s has no patch: its tools are guarded only with @otel_loopguard.tool, or if its requests to the model go "
            "through one of %s. `otel-loopguard doctor -- COMMAND` shows whether its calls are seen.",
            name,
            clients,
        )
