"""The variables at the top of a dashboard."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    DatasourceVariable,
    QueryVariable,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards import names, recordings

PROMETHEUS: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
TEMPO: Final = DataSourceRef(type_val="tempo", uid="${tempo}")


def prometheus() -> DatasourceVariable:
    """Return the variable of the Prometheus data source."""
    return DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def tempo() -> DatasourceVariable:
    """Return the variable of the Tempo data source."""
    return DatasourceVariable("tempo").label("Tempo").type("tempo")


# Recorded series: there are few, and services that have ended are among them. Some services export traces only.
_REPORTING: Final = f"{recordings.PRESENT}|{recordings.TRIP_EVENTS}"
_ANY_SERVICE: Final = f'{{__name__=~"{_REPORTING}"}}'
_CHOSEN_SERVICES: Final = f'{{__name__=~"{_REPORTING}", {names.JOB}=~"$job"}}'
_LOOPS: Final = f'{recordings.TOOL_TRIPS}{{{names.JOB}=~"$job"}}'
# Matches series without the label, too: "All" must not hide them.
_ALL: Final = ".*"


def service() -> QueryVariable:
    """Return the variable of the services that report."""
    return _values("job", "Service", f"label_values({_ANY_SERVICE}, {names.JOB})").all_value(_ALL)


def mode() -> QueryVariable:
    """Return the variable of the modes in which the chosen services loop."""
    return _values("mode", "Loop mode", f"label_values({_LOOPS}, {names.MODE})").all_value(_ALL)


def tool() -> QueryVariable:
    """Return the variable of the tools with which the chosen services loop."""
    return _values("tool", "Tool", f"label_values({_LOOPS}, {names.TOOL})").all_value(_ALL)


def service_name() -> QueryVariable:
    """Return the hidden variable of the chosen services' names in Tempo: a job may begin with the namespace."""
    query = f"label_values({_CHOSEN_SERVICES}, {names.JOB})"
    return _values("service_name", "Service name", query).regex(r"/(?:.*\/)?(.+)/").hide(VariableHide.HIDE_VARIABLE)


def _values(name: str, label: str, query: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(PROMETHEUS)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
