"""What the page can draw. Anything else in a dashboard is an error: a picture that leaves it out would be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PANELS: Final = {"row", "stat", "table", "text", "timeseries"}
TRANSFORMATIONS: Final = {"merge", "organize"}
CELLS: Final = {"color-background"}
STYLES: Final = {"bars", "line"}
VARIABLES: Final = {"datasource", "query"}
SOURCES: Final = {"prometheus"}

KEYS: Final = {
    "collapsed", "datasource", "description", "fieldConfig", "gridPos", "id", "interval", "links", "options", "panels",
    "repeatDirection", "targets", "title", "transformations", "transparent", "type",
}  # fmt: skip
"""The keys of a panel."""
PROPERTIES: Final = {
    "color", "decimals", "links", "min", "noValue", "thresholds", "unit",
    "custom.axisSoftMax", "custom.drawStyle", "custom.fillOpacity", "custom.lineWidth", "custom.showPoints",
    "custom.stacking", "custom.thresholdsStyle",
    "custom.cellOptions", "custom.displayMode", "custom.minWidth", "custom.width",
}  # fmt: skip
"""The properties of fields, in the defaults and in the overrides of a panel."""
OPTIONS: Final = {
    "row": set[str](),
    "stat": {"colorMode", "graphMode", "justifyMode", "orientation", "reduceOptions", "textMode"},
    "table": {"cellHeight", "footer", "frameIndex", "showHeader", "showTypeIcons", "sortBy"},
    "text": {"content", "mode"},
    "timeseries": {"legend", "tooltip"},
}


def check(dashboard: dict[str, Any]) -> None:
    """Raise ``ValueError`` if the page cannot draw something of a dashboard. The message names it.

    The panels of a collapsed row are in the row: they are not shown.
    """
    found = {problem for panel in dashboard["panels"] for problem in _problems(panel)}
    variables = {each["type"] for each in dashboard["templating"]["list"]}
    found |= {f"a variable of type {each}" for each in variables - VARIABLES}
    annotations = (dashboard.get("annotations") or {}).get("list", ())
    found |= {f"the annotation {each['name']}" for each in annotations if each["enable"]}
    if found:
        msg = f"{dashboard['title']}: the pictures cannot show {', '.join(sorted(found))}"
        raise ValueError(msg)


def _problems(panel: dict[str, Any]) -> Iterator[str]:
    kind, fields = panel["type"], panel.get("fieldConfig") or {}
    if kind not in PANELS:
        yield f"a panel of type {kind}"
        return
    yield from _unknown("the key", panel, KEYS)
    yield from _unknown(f"the option of a {kind}", panel.get("options") or {}, OPTIONS[kind])
    yield from _unknown(
        "the transformation", (each["id"] for each in panel.get("transformations") or ()), TRANSFORMATIONS
    )
    yield from _unknown("the data source", (each["datasource"]["type"] for each in panel.get("targets") or ()), SOURCES)
    overrides = fields.get("overrides") or ()
    yield from _unknown("the matcher", (each["matcher"]["id"] for each in overrides), {"byName"})
    given = [*_defaults(fields), *((each["id"], each["value"]) for one in overrides for each in one["properties"])]
    yield from _unknown("the property", (name for name, _ in given), PROPERTIES)
    yield from _unknown("the cell", (value["type"] for name, value in given if name == "custom.cellOptions"), CELLS)
    yield from _unknown("the style", (value for name, value in given if name == "custom.drawStyle"), STYLES)


def _defaults(fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    defaults = dict(fields.get("defaults") or {})
    custom = defaults.pop("custom", {})
    yield from defaults.items()
    yield from ((f"custom.{name}", value) for name, value in custom.items())


def _unknown(what: str, names: Iterable[str], known: set[str]) -> Iterator[str]:
    yield from (f"{what} {name}" for name in names if name not in known)
