"""Import the detectors that a policy file names. They are code, so only the user's own policy file may name them.

That is the file of ``OTEL_PYTHON_LOOPGUARD_CONFIG``, of ``load_policy()`` or of a command line: the user names the file
itself. A preset, a text and a file that was found in a project name none.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.policy.problems import suggestion
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from types import ModuleType


def find(policy_file: str, name: str) -> Detector | str:
    """Import and return the detector of a name in the form ``MODULE:NAME``; or return in words what is wrong.

    The module is looked for on ``sys.path``, and then in the folder of the policy file.
    """
    folder = os.path.dirname(os.path.abspath(policy_file))
    module_name, _, attribute = name.partition(":")
    if not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        return 'must have the form "MODULE:NAME", such as "own_detector:ROW".'
    try:
        module = _import(module_name, folder)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's module raises
        pass_interrupt(error)
        missing = f" {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        place = f"put {module_name}.py into {folder}, or its folder on PYTHONPATH"
        return f"{module_name} cannot be imported ({type(error).__name__}{missing}); {place}."
    found = getattr(module, attribute, None)
    if isinstance(found, Detector):
        return found
    rows = [known for known, one in vars(module).items() if isinstance(one, Detector)]
    if found is None:
        return f"{module_name} has no {attribute}; {suggestion(attribute, rows) or 'it must be a Detector there.'}"
    code = " A function can be given in code: Policy(detectors=[...])." if callable(found) else ""
    return f"{attribute} is of type {type(found).__name__}, and must be a Detector.{code}"


def _import(name: str, folder: str) -> ModuleType:
    if folder in sys.path:
        return import_module(name)
    sys.path.append(folder)
    try:
        return import_module(name)
    finally:
        sys.path.remove(folder)
