"""How a cluster is reached is checked once, when it is said."""

from typing import Any

import pytest

from steelyard.client.config import ClientConfig
from steelyard.client.ids import UniqueKeys, client_id, local_address
from steelyard.errors import ConfigurationError
from steelyard.wire.message_ids import parse_unique_key


def test_several_name_servers_are_kept_in_order() -> None:
    assert ClientConfig("b:2;a:1; b:2").name_servers == ("b:2", "a:1")


def test_the_environment_counts_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "mq-1:9876;mq-2:9876")
    assert ClientConfig().name_servers == ClientConfig.of(None).name_servers == ("mq-1:9876", "mq-2:9876")
    assert ClientConfig("here:1").name_servers == ("here:1",)


def test_without_anything_it_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert ClientConfig().name_servers == ("localhost:9876",)


def test_an_address_as_cloud_consoles_show_it_is_understood() -> None:
    assert ClientConfig("http://mq.example.com:80/").name_servers == ("mq.example.com:80",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"namesrv": "no-port"}, "'no-port' is not an address"),
        ({"access_key": "k"}, "without its secret"),
        ({"secret_key": "s"}, "without an access key"),
        ({"token": "t"}, "a token is given without a key"),
        ({"namespace": "a b"}, "the namespace is 'a b'"),
        ({"name": "x" * 65}, "the name is"),
        ({"timeout_s": 0.0}, "the time to connect is 0.0 s"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ClientConfig(**given)


def test_secrets_are_not_shown() -> None:
    connect = ClientConfig("a:1", access_key="shop", secret_key="hush-hush", token="quiet")
    assert "hush" not in repr(connect)
    assert "quiet" not in repr(connect)
    assert connect.credentials is not None
    assert "hush" not in repr(connect.credentials)


def test_ids_tell_clients_of_one_process_apart_and_say_whose_they_are() -> None:
    ids = {client_id("10.0.0.7", "till") for _ in range(100)}
    assert len(ids) == 100
    assert all(each.startswith("10.0.0.7@till#") and each.endswith("@sy1") for each in ids)


def test_this_machine_has_an_address_towards_a_server() -> None:
    assert local_address("127.0.0.1:9876") == "127.0.0.1"
    assert local_address("no-such-host.invalid:9876") == "127.0.0.1"


def test_unique_keys_are_unique_and_readable() -> None:
    keys = UniqueKeys("10.0.0.7")
    made = [keys.next() for _ in range(5_000)]
    assert len(set(made)) == len(made)
    assert parse_unique_key(made[0], now_ms=4_000_000_000_000).address == "10.0.0.7"
