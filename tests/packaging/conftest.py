"""The packages are built once for all tests here, and so is the environment that has nothing but them."""

import pytest
from tests.packaging.building import Built, Environment, bare, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the wheel and the sdist."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with the wheel, what it needs, and nothing else."""
    return bare(tmp_path_factory.mktemp("bare"), built.wheel)
