"""Listen to the imports of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapt

from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def when_imported(module: str, listener: Callable[[ModuleType], None]) -> None:
    """Call a listener when the module is imported, or now if it is. A fault of it is logged, and breaks no import."""

    def imported(module_object: ModuleType) -> None:
        with Shield()(f"import.{module}"):
            listener(module_object)

    wrapt.register_post_import_hook(imported, module)
