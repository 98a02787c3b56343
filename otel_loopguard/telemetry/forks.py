"""What a child process must not inherit: the parent's counts."""

from __future__ import annotations

from typing import Any

from otel_loopguard.semconv import SCOPE


def forget_counts(meter_provider: Any) -> None:
    """Our instruments begin at nothing again.

    The SDK's counters go on from the parent's values in a forked child, and every worker of a prefork server would
    export the parent's trips once more. The SDK has no public way to begin anew, so its table of our instruments is
    emptied; with another SDK, or another version that keeps it elsewhere, nothing is done.
    """
    consumer = getattr(meter_provider, "_measurement_consumer", None)
    for storage in dict(getattr(consumer, "_reader_storages", None) or {}).values():
        table = getattr(storage, "_instrument_view_instrument_matches", None)
        for instrument in list(table or ()):
            if getattr(getattr(instrument, "instrumentation_scope", None), "name", None) == SCOPE:
                table.pop(instrument, None)  # type: ignore[union-attr]
