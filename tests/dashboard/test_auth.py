"""Who is let in, and what a browser is told to refuse."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.client.config import ClientConfig
from steelyard.dashboard.options import DASHBOARD_PORT, DashboardOptions, kept_token
from steelyard.dashboard.server import Dashboard
from steelyard.errors import ConfigurationError
from steelyard.net.server import TcpListener
from tests.dashboard.http_client import HttpResponse, get, http_request

_TOKEN = "a-token-that-nobody-guesses"
_NOWHERE = ClientConfig("127.0.0.1:1", timeout_s=0.2)
"""Who is refused never gets as far as the cluster."""
_RESET = "/api/groups/billing/offsets/reset"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Run a page whose cluster is nowhere."""
    audit = tmp_path_factory.mktemp("door") / "audit.jsonl"
    options = DashboardOptions(port=0, token=_TOKEN, extra_hosts=("mq.example",), audit_file=audit)
    with Dashboard(_NOWHERE, options) as running:
        yield running


def _cookie(dashboard: Dashboard) -> str:
    answer = http_request(dashboard, f"/?token={_TOKEN}")
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_question_without_a_token_is_refused(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, "/api/about")
    assert answer.status == 401
    assert answer.json["error"] == (
        "you are not signed in; open it by the address with a token that was printed at its start"
    )
    assert http_request(dashboard, "/api/about", headers={"Authorization": "Bearer nonsense"}).status == 401
    assert http_request(dashboard, "/api/about", headers={"Cookie": "steelyard-dashboard-1=nonsense; x"}).status == 401


def test_a_dashboard_without_a_token_asks_for_it_and_shows_nothing_else(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, "/groups/billing")
    assert (answer.status, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b'name="token"' in answer.body
    assert b"/static/js" not in answer.body


def test_the_token_becomes_a_cookie_that_stays_here(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, f"/groups/a%20b?at=5&token={_TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/groups/a%20b?at=5")
    reported = answer.headers["set-cookie"].lower()
    assert "httponly" in reported
    assert "samesite=strict" in reported
    assert _TOKEN not in reported
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert http_request(dashboard, "/api/about", headers={"Cookie": f"other=1; {cookie}"}).status == 200


def test_the_way_back_never_leads_to_another_host(dashboard: Dashboard) -> None:
    assert http_request(dashboard, f"//evil.example/x?token={_TOKEN}").headers["location"] == "/evil.example/x"


def test_a_wrong_token_gets_no_cookie(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, "/?token=wrong")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:80",
        "",
        "localhost.evil",
        "[::2]:9877",
        "[::1]evil.example",
        "[::1].evil.example:80",
        "[localhost]",
        "localhost:evil",
        "localhost:80@evil.example",
        "localhost:80:80",
        "localhost:99999",
        "localhost:",
        "user@localhost",
        "localhost/evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/about", "/metrics", "/static/css/app.css"])
def test_a_host_name_that_the_dashboard_does_not_know_is_refused_with_any_token(
    dashboard: Dashboard, host: str, path: str
) -> None:
    answer = http_request(dashboard, path, headers={"Host": host, "Authorization": f"Bearer {_TOKEN}"})
    assert answer.status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9877", "MQ.Example:443"])
def test_names_that_it_knows_are_fine(dashboard: Dashboard, host: str) -> None:
    assert (
        http_request(dashboard, "/api/about", headers={"Host": host, "Authorization": f"Bearer {_TOKEN}"}).status == 200
    )


def _posted(dashboard: Dashboard, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http_request(dashboard, _RESET, "POST", {}, {"Cookie": _cookie(dashboard), **named})


def test_what_is_posted_needs_our_header_and_has_to_come_from_here(dashboard: Dashboard) -> None:
    own = dashboard.address.rstrip("/")
    assert _posted(dashboard).status == 403
    assert _posted(dashboard, X_Steelyard="1", Origin="https://evil.example").status == 403
    assert _posted(dashboard, X_Steelyard="1", Origin="null").status == 403
    assert _posted(dashboard, X_Steelyard="1", Sec_Fetch_Site="cross-site").status == 403
    assert _posted(dashboard, X_Steelyard="1", Sec_Fetch_Site="same-site").status == 403
    assert _posted(dashboard, X_Steelyard="1", Origin=own, Sec_Fetch_Site="same-origin").status not in (401, 403)
    assert http_request(dashboard, _RESET, "POST", {}, {"X-Steelyard": "1"}).status == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_change_nothing(dashboard: Dashboard, method: str) -> None:
    assert http_request(dashboard, _RESET, method, {}, {"Authorization": f"Bearer {_TOKEN}"}).status == 403
    assert http_request(
        dashboard, _RESET, method, {}, {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
    ).status in (
        404,
        405,
    )


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/nothing", "/static/js/main.js", "/static/no", "/metrics"])
def test_every_answer_forbids_what_is_not_ours(dashboard: Dashboard, path: str) -> None:
    reported = http_request(dashboard, path, headers={"Authorization": f"Bearer {_TOKEN}"}).headers
    rules = dict(rule.strip().split(" ", 1) for rule in reported["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in reported["content-security-policy"]
    assert (reported["x-content-type-options"], reported["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in reported


def test_a_path_cannot_leave_the_files_of_the_dashboard(dashboard: Dashboard) -> None:
    for path in ("/static/../server.py", "/static/..%2fserver.py", "/static//etc/passwd", "/static/vendor/LICENSE.htm"):
        assert http_request(dashboard, path).status == 404


def test_a_read_only_dashboard_changes_nothing_and_reports_it(tmp_path: Path) -> None:
    options = DashboardOptions(port=0, token=_TOKEN, read_only=True, audit_file=tmp_path / "audit.jsonl")
    with Dashboard(_NOWHERE, options) as dashboard:
        headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
        answer = http_request(dashboard, _RESET, "POST", {}, headers)
        assert (answer.status, answer.json["kind"]) == (403, "ReadOnly")
        assert get(dashboard, "/api/about")["read_only"] is True
    assert json.loads((tmp_path / "audit.jsonl").read_text())["outcome"] == "rejected: read-only"


def test_a_change_that_fails_is_in_the_audit_log_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = tmp_path / "audit.jsonl"
    options = DashboardOptions(port=0, token=_TOKEN, audit_file=audit)
    with (
        Dashboard(_NOWHERE, options) as dashboard,
        caplog.at_level(logging.WARNING, logger="steelyard.dashboard.audit"),
    ):
        answer = http_request(
            dashboard, _RESET, "POST", {"x": 1}, {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
        )
    assert answer.status >= 400
    (line,) = audit.read_text().splitlines()
    row = json.loads(line)
    assert row["who"].startswith("127.0.0.1:")
    assert row["outcome"].startswith("failed: ")
    assert [record.getMessage() for record in caplog.records if record.name == "steelyard.dashboard.audit"] == [
        f"audit: {row['who']}: {row['what']}: {row['outcome']}"
    ]


def test_too_much_is_refused_before_it_is_read(dashboard: Dashboard) -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
    answer = http_request(dashboard, _RESET, "POST", "x" * 2_000_000, headers)
    assert answer.status == 400
    assert "larger than" in answer.json["what"]


def test_metrics_take_the_token_where_other_machines_may_ask() -> None:
    with Dashboard(_NOWHERE, DashboardOptions(port=0, token=_TOKEN, allow_remote=True)) as dashboard:
        assert http_request(dashboard, "/metrics").status == 401
        assert http_request(dashboard, "/metrics", headers={"Authorization": f"Bearer {_TOKEN}"}).status != 401


@pytest.mark.parametrize(
    "make",
    [
        lambda: DashboardOptions(token="short"),
        lambda: DashboardOptions(token="with\nlines-and-more-of-it"),
        lambda: DashboardOptions(host="0.0.0.0"),
        lambda: DashboardOptions(port=-1),
    ],
)
def test_options_that_cannot_be_are_refused(make: Callable[[], DashboardOptions]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_the_usual_port_gives_way_to_whoever_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = TcpListener.bind("127.0.0.1", 0)
    monkeypatch.setattr("steelyard.dashboard.server.DASHBOARD_PORT", taken.port)
    try:
        with Dashboard(_NOWHERE, DashboardOptions(token=_TOKEN)) as dashboard:
            assert dashboard.address != f"http://{taken.address}/"
            assert http_request(dashboard, "/").status == 401
    finally:
        taken.close()
    assert DASHBOARD_PORT == 9877


def test_the_way_back_keeps_the_signs_of_names(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, f"/topics/%25RETRY%25billing?token={_TOKEN}")
    assert answer.headers["location"] == "/topics/%25RETRY%25billing"


@pytest.mark.parametrize("other", ['prefs={"a": 1}', "a b=1", 'x="', "token", "caf\xe9=1", "a[0]=1"])
def test_cookies_of_others_at_this_host_shut_nobody_out(dashboard: Dashboard, other: str) -> None:
    assert http_request(dashboard, "/api/about", headers={"Cookie": f"{other}; {_cookie(dashboard)}"}).status == 200
    assert http_request(dashboard, "/api/about", headers={"Cookie": other}).status == 401


def test_the_token_is_kept_in_a_folder_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "dashboard"
    assert kept_token(folder, "a-first-token-of-all") == "a-first-token-of-all"
    assert kept_token(folder, "another-one-much-later") == "a-first-token-of-all"
    (folder / "token").chmod(0o644)
    assert kept_token(folder, "another-one-much-later") == "a-first-token-of-all"
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"two\nlines-of-a-token-each"])
def test_what_is_no_token_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    assert kept_token(tmp_path, "a-first-token-of-all") == "a-first-token-of-all"
    assert kept_token(tmp_path, "another-one-much-later") == "a-first-token-of-all"


def test_a_token_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING, logger="steelyard.dashboard"):
        assert kept_token(tmp_path, "a-first-token-of-all") == "a-first-token-of-all"
    assert "its next start will have another" in caplog.text
    assert not (tmp_path / "elsewhere").exists()


def test_a_browser_stays_signed_in_when_the_dashboard_is_started_again(tmp_path: Path) -> None:
    cookies, links = [], []
    for _ in range(2):
        running = Dashboard(_NOWHERE, DashboardOptions(port=0))
        running.keep_in(tmp_path, with_token=True)
        with running:
            answer = http_request(running, f"/?token={running.options.token}")
            cookies.append(answer.headers["set-cookie"].partition(";")[0].partition("=")[2])
            links.append(running.link("groups").partition("?")[2])
    assert cookies[0] == cookies[1]
    assert links[0] == links[1]
