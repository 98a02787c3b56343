"""The tests of clients leave connections open, as programs do."""

from tests.models.conftest import open_connections  # noqa: F401 - a fixture is used where its name is
