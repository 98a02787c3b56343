"""The kinds of panels that the dashboards have, and links between them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grafana_foundation_sdk.builders import common, stat, table, tempo, text, timeseries
from grafana_foundation_sdk.builders.dashboard import (
    AnnotationPanelFilter,
    AnnotationQuery,
    DashboardLink,
    FieldColor,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphDrawStyle,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import AnnotationQuery as AnnotationModel
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.tempo import TempoQuery

from dashboards.promql import MINUTE
from dashboards.variables import PROMETHEUS, TEMPO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUNBOOKS: Final = "https://github.com/otel-loopguard/otel-loopguard/blob/main/docs/runbooks"
OVERVIEW_UID: Final = "loopguard-overview"
DRILLDOWN_UID: Final = "loopguard-drilldown"
COLLECTOR_UID: Final = "loopguard-collector"

COUNT: Final = "locale"
"""The unit of whole numbers: 12,345 and not 12.3 K."""
SHARE: Final = "percentunit"
"""The unit of shares: 0.25 is shown as 25 %."""
_DECIMALS: Final = {COUNT: 0, SHARE: 1}

Panel = TypeVar("Panel", timeseries.Panel, stat.Panel, table.Panel)
# A threshold is the value from which a colour applies; the first has none.
Steps = list[tuple[float | None, str]]
CALM: Final[Steps] = [(None, "text")]
"""No colour: neither a low nor a high value is bad."""


def bad_from(value: float, colour: str) -> Steps:
    """Return thresholds: green below the value, the colour from the value on, no colour without data."""
    return [(None, "text"), (0, "green"), (value, colour)]


COLOURS: Final = {
    "none": "green",
    "observe": "red",
    "nudge": "yellow",
    "nudged": "yellow",
    "reuse": "light-blue",
    "reused": "light-blue",
    "block": "blue",
    "blocked": "blue",
    "conclude": "purple",
    "abort": "orange",
    "aborted": "orange",
    "executed": "green",
    "failed": "dark-red",
    "work": "green",
    "loop": "orange",
}
"""The colour of each action, outcome and kind of step: red for calls that ran on, blue for refused ones."""


@dataclass(frozen=True)
class Column:
    """A column of a table: it shows a label, or the values of a query.

    A query without a heading makes no column, but its labels are in the rows. A cell links to ``url`` if that is given.
    """

    heading: str
    label: str = ""
    query: str = ""
    unit: str = COUNT
    url: str = ""
    steps: Steps | None = None
    runbook: str = ""
    """The page that a cell links to, if it links to a runbook."""


def panel_id(title: str) -> int:
    """Return the id of a panel, computed from its title: links to it stay right when panels move."""
    return zlib.crc32(title.encode()) % 1_000_000


def number(
    title: str,
    why: str,
    query: str,
    *,
    unit: str = COUNT,
    steps: Steps = CALM,
    filled: bool = False,
    width: int = 4,
    legend: str = "",
    empty: str,
) -> stat.Panel:
    """Return a panel with one number: the query's value at the end of the time range. ``empty`` explains no data.

    With a ``legend``, in Grafana's template syntax, there is a named number for each series.
    """
    panel = _described(stat.Panel(), title, why, unit=unit, steps=steps, empty=empty)
    return (
        panel.with_target(_instant(query).legend_format(legend))
        .text_mode(BigValueTextMode.VALUE_AND_NAME if legend else BigValueTextMode.AUTO)
        .color_mode(BigValueColorMode.BACKGROUND if filled else BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
        .span(width)
    )


def lines(
    title: str,
    why: str,
    queries: Mapping[str, str],
    *,
    unit: str = COUNT,
    limit: float | None = None,
    sorted_legend: bool = False,
    soft_max: float | None = None,
    coloured: bool = False,
    empty: str,
) -> timeseries.Panel:
    """Return a panel with a line for each series of the queries, by their legends, in Grafana's template syntax.

    ``coloured``: the lines have the fixed ``COLOURS``.
    """
    steps = CALM if limit is None else [*CALM, (limit, "red")]
    panel = _series(title, why, queries, unit=unit, steps=steps, empty=empty)
    panel = _in_colours(panel) if coloured else panel
    panel = panel.legend(_legend("lastNotNull", "max", sort="Last *") if sorted_legend else _legend())
    if soft_max is not None:
        panel = panel.axis_soft_max(soft_max)
    limits = GraphTresholdsStyleMode.OFF if limit is None else GraphTresholdsStyleMode.DASHED
    style = common.GraphThresholdsStyleConfig().mode(limits)
    return panel.draw_style(GraphDrawStyle.LINE).fill_opacity(10).thresholds_style(style)


def bars(
    title: str,
    why: str,
    queries: Mapping[str, str],
    *,
    unit: str = COUNT,
    exemplars: str = "",
    coloured: bool = False,
    empty: str,
) -> timeseries.Panel:
    """Return a panel with stacked bars: a bar counts what happened since the bar before, the legend has the totals.

    ``exemplars`` selects the counters whose exemplars are shown. ``coloured``: the bars have the fixed ``COLOURS``.
    """
    panel = _series(title, why, queries, unit=unit, steps=CALM, empty=empty)
    panel = _in_colours(panel) if coloured else panel
    if exemplars:
        # Recorded series have no exemplars. At the epoch there are no samples: this returns exemplars only, at no cost.
        panel = panel.with_target(_range(f"{exemplars} @ 0", "").ref_id("X").exemplar(exemplar=True))
    stacking = common.StackingConfig().mode(StackingMode.NORMAL).group("A")
    return (
        panel.legend(_legend("sum", sort="Total"))
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(70)
        .line_width(0)
        .stacking(stacking)
    )


def _in_colours(panel: timeseries.Panel) -> timeseries.Panel:
    for name, colour in COLOURS.items():
        fixed = DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})
        panel = panel.override_by_name(name, [fixed])
    return panel


def listing(title: str, why: str, columns: Sequence[Column], *, sort_by: Sequence[str], empty: str) -> table.Panel:
    """Return a table with a row for each set of labels, sorted by these headings, the largest values first."""
    panel = _described(table.Panel(), title, why, unit="short", steps=CALM, empty=empty)
    asked = [column for column in columns if column.query]
    fields = {column.heading: column.label for column in columns if column.label}
    hidden = {"Time": True}
    for ref, column in zip("ABCDEFGH", asked, strict=False):
        field = f"Value #{ref}" if len(asked) > 1 else "Value"
        panel = panel.with_target(_instant(column.query).format(PromQueryFormat.TABLE).ref_id(ref))
        if column.heading:
            fields[column.heading] = field
        else:
            hidden[field] = True
    shown = [column for column in columns if column.heading]
    tidy: dict[str, Any] = {
        "excludeByName": hidden,
        "renameByName": {fields[column.heading]: column.heading for column in shown},
        "indexByName": {fields[column.heading]: index for index, column in enumerate(shown)},
    }
    for column in shown:
        panel = panel.override_by_name(column.heading, _of_column(column))
    if len(asked) > 1:
        panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    return (
        panel.with_transformation(DataTransformerConfig(id_val="organize", options=tidy))
        .sort_by([common.TableSortByFieldState().display_name(heading).desc(desc=True) for heading in sort_by])
        .height(8)
        .span(12)
    )


def spans(title: str, why: str, query: str, *, sort_by: str = "", empty: str) -> table.Panel:
    """Return a table of the spans that a TraceQL query finds, with links to their traces.

    ``sort_by``: an attribute; the spans with its largest values are first, else the latest ones.
    """
    panel = _described(table.Panel(), title, why, unit="short", steps=CALM, empty=empty).datasource(TEMPO)
    for name, width in {"Start time": 210, "Span ID": 150}.items():
        panel = panel.override_by_name(name, [DynamicConfigValue(id_val="custom.width", value=width)])
    if sort_by:
        panel = panel.sort_by([common.TableSortByFieldState().display_name(sort_by).desc(desc=True)])
    return panel.with_target(_Spans(query)).height(14).span(24)


def note(title: str, markdown: str) -> text.Panel:
    """Return a panel with a text."""
    return text.Panel().id(panel_id(title)).title(title).content(markdown.strip()).height(5).span(24)


class _Spans(tempo.TempoQuery):
    """A TraceQL query that returns spans. Grafana's builder does not know ``tableType`` yet."""

    def __init__(self, query: str) -> None:
        super().__init__()
        self.query(query).query_type("traceql").ref_id("A").limit(100).datasource(TEMPO)

    def build(self) -> TempoQuery:
        return _SpanTable(**vars(super().build()))


class _SpanTable(TempoQuery):
    def to_json(self) -> dict[str, object]:
        return super().to_json() | {"tableType": "spans"}


class _Alerts(AnnotationQuery):
    """Firing alerts as annotations. Grafana's builder does not know the formats of title and text yet."""

    def build(self) -> AnnotationModel:
        return _NamedAlerts(**vars(super().build()))


class _NamedAlerts(AnnotationModel):
    def to_json(self) -> dict[str, object]:
        texts = {"titleFormat": "{{alertname}}", "textFormat": "{{job}}", "tagKeys": "severity", "step": "30s"}
        return super().to_json() | texts


def marks(name: str, firing: str, panel: str) -> AnnotationQuery:
    """Return an annotation that marks on one panel when alerts fire. It is off until a user switches it on.

    Choose a panel without exemplars: the marks would cover them.
    """
    only = AnnotationPanelFilter().exclude(exclude=False).ids([panel_id(panel)])
    return _Alerts().name(name).datasource(PROMETHEUS).enable(enable=False).icon_color("red").expr(firing).filter(only)


def link(title: str, url: str) -> DashboardLink:
    """Return a link with a title."""
    return DashboardLink(title).url(url).type(DashboardLinkType.LINK)


def board_link(title: str, uid: str) -> DashboardLink:
    """Return a link to another dashboard, which keeps the values of variables and the time range."""
    return link(title, f"/d/{uid}").include_vars(include_vars=True).keep_time(keep_time=True)


def runbook(page: str, title: str = "Runbook") -> DashboardLink:
    """Return a link to a runbook, by the name of its page."""
    return link(title, f"{RUNBOOKS}/{page}.md").target_blank(target_blank=True)


def conversations(*chosen: str) -> str:
    """Return the URL of the conversations' dashboard, with the time range and these URL parameters."""
    return f"/d/{DRILLDOWN_UID}?{'&'.join(['${__url_time_range}', '${datasource:queryparam}', *chosen])}"


def _described(panel: Panel, title: str, why: str, *, unit: str, steps: Steps, empty: str) -> Panel:
    # The text for no data is shown with an error, too: its causes are in the description.
    panel = panel.id(panel_id(title)).title(title).description(f"{why}\n\nNo data: {empty}").no_value("No data")
    if unit in _DECIMALS:
        panel = panel.decimals(_DECIMALS[unit])
    return panel.datasource(PROMETHEUS).unit(unit).thresholds(_thresholds(steps))


def _thresholds(steps: Steps) -> ThresholdsConfig:
    values = [Threshold(value=value, color=color) for value, color in steps]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(values)


def _series(
    title: str, why: str, queries: Mapping[str, str], *, unit: str, steps: Steps, empty: str
) -> timeseries.Panel:
    panel = _described(timeseries.Panel(), title, why, unit=unit, steps=steps, empty=empty)
    for ref, (legend, query) in zip("ABCDEFGH", queries.items(), strict=False):
        panel = panel.with_target(_range(query, legend).ref_id(ref))
    tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    panel = panel.min(0).interval(MINUTE).tooltip(tooltip).show_points(VisibilityMode.NEVER).height(8).span(12)
    return panel.color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))


def _instant(query: str) -> Dataquery:
    """Return a query for the end of the time range only."""
    return Dataquery().expr(query).ref_id("A").instant().datasource(PROMETHEUS)


def _range(query: str, legend: str) -> Dataquery:
    return Dataquery().expr(query).legend_format(legend).range().datasource(PROMETHEUS)


def _legend(*calcs: str, sort: str = "") -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(show_legend=True)
    if not calcs:
        return legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    legend = legend.display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    return legend.calcs(list(calcs)).sort_by(sort).sort_desc(sort_desc=True)


def _of_column(column: Column) -> list[DynamicConfigValue]:
    # Not every row has a value of each query, nor each label.
    properties: dict[str, object] = {"noValue": "-"}
    if column.query:
        properties |= {"unit": column.unit, "decimals": _DECIMALS.get(column.unit), "custom.width": 104}
    else:
        properties["custom.minWidth"] = 132
    if column.url:
        properties["links"] = [link(f"Conversations of this {column.heading.lower()}", column.url).build()]
    if column.runbook:
        properties["links"] = [runbook(column.runbook).build()]
    if column.steps is not None:
        properties["thresholds"] = _thresholds(column.steps).build()
        # Grafana 9 knows the first, later versions the second; each ignores what it does not know.
        properties["custom.displayMode"] = "color-background"
        properties["custom.cellOptions"] = {"type": "color-background", "mode": "gradient"}
    return [DynamicConfigValue(id_val=name, value=value) for name, value in properties.items() if value is not None]
