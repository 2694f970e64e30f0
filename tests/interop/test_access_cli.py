"""`steelyard access` with Apache's servers under access control: what its page shows is what happens."""

from pathlib import Path

import pytest

from steelyard import Message, Producer
from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.errors import SendFailed
from tests.cli.sessions import play
from tests.interop.jars import NotReady
from tests.interop.secured import ACCOUNTS, SecuredBroker, beside, with_accounts

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def boss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sit down as the one who may do everything."""
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "the-boss")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", ACCOUNTS["the-boss"])


def test_a_session_with_users_goes_as_its_page_shows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path_factory.mktemp("users")
    try:
        with with_accounts("5.5.0", root / "a") as first:
            with beside(first, root / "b"):
                assert play("access", first.namesrv, "users", tmp_path)
            _a_rule_counts(first, capsys)
    except NotReady as problem:
        pytest.skip(str(problem))


def _a_rule_counts(first: SecuredBroker, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--namesrv", first.namesrv, "--broker", "broker-a"]
    guest = first.as_account("the-guest")
    with Producer(guest, group="guests") as producer, pytest.raises(SendFailed):
        producer.send(Message("orders", b"let me in"))
    assert main(["access", "policy", "create", "the-guest", "--on", "topic:orders", "--may", "pub", *at]) == 0
    with Producer(guest, group="guests") as producer:
        assert producer.send(Message("orders", b"thank you")).queue.topic == "orders"
    assert main(["access", "user", "ls", "--namesrv", first.namesrv, "--access-key", "the-guest"]) == ExitCode.REFUSED
    capsys.readouterr()
