"""The environment that has the wheel and nothing else is made once for all tests here."""

import pytest

from tests.packaging.building import Built, Environment, bare


@pytest.fixture(scope="session")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with the wheel, what it needs, and nothing else."""
    return bare(tmp_path_factory.mktemp("bare"), built.wheel)
