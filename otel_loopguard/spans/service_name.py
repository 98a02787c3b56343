"""The service that made a span, by the attributes of its resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Service(NamedTuple):
    """A service, as the resource of its spans names it."""

    name: str = "unknown_service"
    namespace: str = ""
    environment: str = ""

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Service:
        """Return the service that the attributes of a resource name."""
        found = ("service.name",), ("service.namespace",), ("deployment.environment.name", "deployment.environment")
        texts = [next((str(attributes[key]) for key in keys if attributes.get(key)), "") for keys in found]
        return cls(texts[0] or cls._field_defaults["name"], *texts[1:])


NO_SERVICE = Service()
