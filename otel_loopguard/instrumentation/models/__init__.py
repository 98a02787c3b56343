"""The clients of model providers, one a file, with every fact of each. None is imported outside of functions.

The start of a process reads the names below. It imports the file of a client when the program imports one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_loopguard.instrumentation.lazy_adapters import on_demand

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.model_api import ModelClient

    CLIENTS: tuple[ModelClient, ...]

PATCHED_MODULES: Final = {
    "anthropic": ("anthropic", "anthropic._base_client"),
    "google_genai": ("google.genai._api_client",),
    "litellm": (
        "litellm",
        "litellm.litellm_core_utils.streaming_handler",
        "litellm.responses.litellm_completion_transformation.streaming_iterator",
        "litellm.responses.streaming_iterator",
    ),
    "openai": ("openai", "openai._base_client"),
}
"""The modules that hold the targets of each client, in all its versions."""

__getattr__ = on_demand(__name__, "CLIENTS", PATCHED_MODULES, "CLIENT")
