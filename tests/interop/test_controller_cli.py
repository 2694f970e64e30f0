"""`steelyard controller` with Apache's own: what its page shows is what happens."""

from pathlib import Path

import pytest
from tests.cli.sessions import play
from tests.interop.controlled import controlled
from tests.interop.jars import NotReady

pytestmark = pytest.mark.timeout(400)


def test_a_session_with_a_controller_goes_as_its_page_shows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        with controlled(tmp_path_factory.mktemp("controlled")) as namesrv:
            assert play("controller", namesrv, "controller", tmp_path)
    except NotReady as problem:
        pytest.skip(str(problem))
