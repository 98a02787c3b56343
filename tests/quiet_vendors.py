"""Switch the vendors' own telemetry off, and keep their files out of the user's folder. Import it before a framework.

CrewAI sets a tracer provider for the whole process as it is imported: then Strands records spans nobody asked for.
"""

from __future__ import annotations

import os
import tempfile

os.environ |= {
    "AGNO_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(),
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DSPY_CACHEDIR": tempfile.mkdtemp(),
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would fetch its list of prices
    "MSWEA_GLOBAL_CONFIG_DIR": tempfile.mkdtemp(),
    "MSWEA_SILENT_STARTUP": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
