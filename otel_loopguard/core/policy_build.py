"""From a flat list of settings, checked already, to the Policy that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.policy import Policy, Rule, ToolContract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.core.toml_lines import Path


def build(values: Mapping[Path, Any]) -> Policy:
    """The policy that these settings make."""
    top: dict[str, Any] = {}
    modes: dict[str, dict[str, Any]] = {}
    tools: dict[str, dict[str, Any]] = {}
    tool_modes: dict[str, dict[str, dict[str, Any]]] = {}
    tables: dict[str, Any] = {"words": {}, "sentences": {}}
    for path, value in values.items():
        if len(path) == 1:
            top[path[0]] = value
        elif path[0] == "modes":
            modes.setdefault(path[1], {})[path[2]] = value
        elif path[0] == "tools":
            own = tools.setdefault(path[1], {})
            if path[2] == "modes":
                tool_modes.setdefault(path[1], {}).setdefault(path[3], {})[path[4]] = value
            else:
                own[path[2]] = value
        else:
            tables[path[0]][path[1]] = value
    return Policy(
        **top,
        **tables,
        modes={mode: Rule(**rule) for mode, rule in modes.items()},
        tools={
            glob: ToolContract(**own, modes={mode: Rule(**rule) for mode, rule in tool_modes.get(glob, {}).items()})
            for glob, own in tools.items()
        },
    )
