"""The kinds of panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, stat, table, tempo, timeseries
from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, DashboardLink, FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    GraphDrawStyle,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import AnnotationQuery as AnnotationModel
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataTransformerConfig,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.tempo import TempoQuery

from dashboards.promql import equals, select
from dashboards.variables import PROMETHEUS, TEMPO

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNBOOKS: Final = "https://github.com/otel-loopguard/otel-loopguard/blob/main/docs/runbooks"
DRILLDOWN_UID: Final = "loopguard-drilldown"
OVERVIEW_UID: Final = "loopguard-overview"

Panel = TypeVar("Panel", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel)
# A threshold is the value from which a colour applies; the first has none.
Steps = list[tuple[float | None, str]]
CALM: Final[Steps] = [(None, "green")]


def number(title: str, why: str, query: str, *, unit: str = "short", steps: Steps = CALM, empty: str) -> stat.Panel:
    """One number for the whole time range."""
    panel = _described(stat.Panel(), title, why, unit=unit, steps=steps, empty=empty)
    return (
        panel.with_target(instant(query))
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
        .span(4)
    )


def over_time(
    title: str,
    why: str,
    queries: Mapping[str, str],
    *,
    unit: str = "short",
    steps: Steps = CALM,
    bars: bool = False,
    exemplars: bool = False,
    empty: str,
) -> timeseries.Panel:
    """A time series. The mapping's keys are legends, in Grafana's template syntax."""
    panel = _described(timeseries.Panel(), title, why, unit=unit, steps=steps, empty=empty)
    for index, (legend, query) in enumerate(queries.items()):
        target = Dataquery().expr(query).legend_format(legend).ref_id("ABCDEFGH"[index]).range().exemplar(exemplars)
        panel = panel.with_target(target.datasource(PROMETHEUS))
    panel = panel.min(0).legend(_legend()).tooltip(_tooltip()).show_points(VisibilityMode.NEVER).height(8).span(12)
    panel = panel.color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
    return _as_bars(panel) if bars else _with_limits(panel, steps)


def top_list(title: str, why: str, query: str, legend: str, *, unit: str = "short", empty: str) -> bargauge.Panel:
    """The largest values over the whole time range, as bars."""
    return (
        _described(bargauge.Panel(), title, why, unit=unit, steps=[(None, "orange")], empty=empty)
        .with_target(instant(query).legend_format(legend))
        .display_mode(BarGaugeDisplayMode.BASIC)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .min(0)
        .height(8)
        .span(12)
    )


def listing(title: str, why: str, query: str, columns: Mapping[str, str], *, empty: str) -> table.Panel:
    """A table with one row a series; ``columns`` maps labels (and ``Value``) to headings."""
    tidy: dict[str, Any] = {
        "excludeByName": {"Time": True},
        "renameByName": dict(columns),
        "indexByName": {name: index for index, name in enumerate(columns)},
    }
    return (
        _described(table.Panel(), title, why, unit="short", steps=CALM, empty=empty)
        .with_target(instant(query).format(PromQueryFormat.TABLE))
        .with_transformation(DataTransformerConfig(id_val="organize", options=tidy))
        .height(8)
        .span(12)
    )


def spans(title: str, why: str, query: str, *, empty: str) -> table.Panel:
    """The spans of a TraceQL query, as a table with links to their traces."""
    panel = _described(table.Panel(), title, why, unit="short", steps=CALM, empty=empty).datasource(TEMPO)
    return panel.with_target(_Spans(query)).height(14).span(24)


class _Spans(tempo.TempoQuery):
    """A TraceQL query that returns spans. The builder knows the query, but not yet ``tableType``."""

    def __init__(self, query: str) -> None:
        super().__init__()
        self.query(query).query_type("traceql").ref_id("A").limit(100).datasource(TEMPO)

    def build(self) -> TempoQuery:
        return _SpanTable(**vars(super().build()))


class _SpanTable(TempoQuery):
    def to_json(self) -> dict[str, object]:
        return super().to_json() | {"tableType": "spans"}


class _Alerts(AnnotationQuery):
    """Firing alerts. The builder knows the query, but not yet the formats of title and text."""

    def build(self) -> AnnotationModel:
        return _NamedAlerts(**vars(super().build()))


class _NamedAlerts(AnnotationModel):
    def to_json(self) -> dict[str, object]:
        texts = {"titleFormat": "{{alertname}}", "textFormat": "{{job}}", "tagKeys": "severity", "step": "30s"}
        return super().to_json() | texts


def firing_alerts() -> AnnotationQuery:
    """Mark on every panel when one of our alerts fires."""
    firing = select("ALERTS", 'alertname=~"Loopguard.+"', equals("alertstate", "firing"))
    return _Alerts().name("Alerts").datasource(PROMETHEUS).enable(enable=True).icon_color("red").expr(firing)


def instant(query: str) -> Dataquery:
    """A query for the end of the time range only."""
    return Dataquery().expr(query).ref_id("A").instant().datasource(PROMETHEUS)


def link(title: str, url: str) -> DashboardLink:
    """A link with a title."""
    return DashboardLink(title).url(url).type(DashboardLinkType.LINK)


def runbook(page: str) -> DashboardLink:
    """A link to a runbook."""
    return link("Runbook", f"{RUNBOOKS}/{page}.md").target_blank(target_blank=True)


def drilldown(*chosen: str) -> DashboardLink:
    """A link from a point of a panel to its conversations; ``chosen`` are more URL parameters."""
    parameters = "&".join(["${__url_time_range}", "${datasource:queryparam}", "${job:queryparam}", *chosen])
    return link("Conversations of this point", f"/d/{DRILLDOWN_UID}?{parameters}")


def _described(panel: Panel, title: str, why: str, *, unit: str, steps: Steps, empty: str) -> Panel:
    thresholds = (
        ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(value=value, color=color) for value, color in steps])
    )
    return panel.title(title).description(why).datasource(PROMETHEUS).unit(unit).thresholds(thresholds).no_value(empty)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(show_legend=True).display_mode(LegendDisplayMode.LIST)
    return legend.placement(LegendPlacement.BOTTOM)


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)


def _as_bars(panel: timeseries.Panel) -> timeseries.Panel:
    stacking = common.StackingConfig().mode(StackingMode.NORMAL).group("A")
    return panel.draw_style(GraphDrawStyle.BARS).fill_opacity(70).line_width(0).stacking(stacking)


def _with_limits(panel: timeseries.Panel, steps: Steps) -> timeseries.Panel:
    limits = GraphTresholdsStyleMode.DASHED if len(steps) > 1 else GraphTresholdsStyleMode.OFF
    style = common.GraphThresholdsStyleConfig().mode(limits)
    return panel.draw_style(GraphDrawStyle.LINE).fill_opacity(10).thresholds_style(style)
