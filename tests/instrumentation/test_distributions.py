"""The distributions of modules, as the doctor and the warning of an unknown version name them."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from otel_loopguard.instrumentation.distributions import distributions_of


@pytest.mark.parametrize(
    ("module", "distribution"),
    [("langgraph.prebuilt.tool_node", "langgraph"), ("langchain_core.tools", "langchain-core"), ("_pytest", "pytest")],
)
def test_a_module_belongs_to_the_distribution_that_lists_it(module, distribution):
    """Also in Python 3.10, and where the build of the distribution wrote no top_level.txt."""
    pytest.importorskip(module.partition(".")[0])
    assert distributions_of(module)[distribution] == version(distribution)


def test_a_module_of_a_program_belongs_to_none():
    """A file of the program itself is in no distribution."""
    assert distributions_of("a_program_of_its_own.agents") == {}
