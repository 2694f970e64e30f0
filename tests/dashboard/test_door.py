"""Who is let in, and what a browser is told to refuse."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.dashboard.asking import Answer, ask, get

from steelyard.client.connect import Connect
from steelyard.dashboard.options import PAGE_PORT, PageOptions
from steelyard.dashboard.page import Page
from steelyard.errors import ConfigurationError
from steelyard.net.listener import Listener

_TOKEN = "a-token-that-nobody-guesses"
_NOWHERE = Connect("127.0.0.1:1", timeout_s=0.2)
"""Who is refused never gets as far as the cluster."""
_RESET = "/api/groups/billing/offsets/reset"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Run a page whose cluster is nowhere."""
    audit = tmp_path_factory.mktemp("door") / "audit.jsonl"
    options = PageOptions(port=0, token=_TOKEN, hosts=("mq.example",), audit=audit)
    with Page(_NOWHERE, options) as running:
        yield running


def _cookie(page: Page) -> str:
    answer = ask(page, f"/?token={_TOKEN}")
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_question_without_a_token_is_refused(page: Page) -> None:
    answer = ask(page, "/api/about")
    assert answer.status == 401
    assert answer.json["error"] == (
        "the page does not know you; open it by the address with a token that was printed at its start"
    )
    assert ask(page, "/api/about", headers={"Authorization": "Bearer nonsense"}).status == 401
    assert ask(page, "/api/about", headers={"Cookie": "steelyard-page-1=nonsense; x"}).status == 401


def test_a_page_without_a_token_asks_for_it_and_shows_nothing_else(page: Page) -> None:
    answer = ask(page, "/groups/billing")
    assert (answer.status, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b'name="token"' in answer.body
    assert b"/static/js" not in answer.body


def test_the_token_becomes_a_cookie_that_stays_here(page: Page) -> None:
    answer = ask(page, f"/groups/a%20b?at=5&token={_TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/groups/a%20b?at=5")
    told = answer.headers["set-cookie"].lower()
    assert "httponly" in told
    assert "samesite=strict" in told
    assert _TOKEN not in told
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert ask(page, "/api/about", headers={"Cookie": f"other=1; {cookie}"}).status == 200


def test_the_way_back_never_leads_to_another_host(page: Page) -> None:
    assert ask(page, f"//evil.example/x?token={_TOKEN}").headers["location"] == "/evil.example/x"


def test_a_wrong_token_gets_no_cookie(page: Page) -> None:
    answer = ask(page, "/?token=wrong")
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
@pytest.mark.parametrize("path", ["/", "/api/about", "/metrics", "/static/css/page.css"])
def test_a_name_that_the_page_does_not_know_is_refused_whoever_asks(page: Page, host: str, path: str) -> None:
    answer = ask(page, path, headers={"Host": host, "Authorization": f"Bearer {_TOKEN}"})
    assert answer.status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9877", "MQ.Example:443"])
def test_names_that_it_knows_are_fine(page: Page, host: str) -> None:
    assert ask(page, "/api/about", headers={"Host": host, "Authorization": f"Bearer {_TOKEN}"}).status == 200


def _posted(page: Page, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(page, _RESET, "POST", {}, {"Cookie": _cookie(page), **named})


def test_what_is_posted_needs_our_header_and_has_to_come_from_here(page: Page) -> None:
    own = page.address.rstrip("/")
    assert _posted(page).status == 403
    assert _posted(page, X_Steelyard="1", Origin="https://evil.example").status == 403
    assert _posted(page, X_Steelyard="1", Origin="null").status == 403
    assert _posted(page, X_Steelyard="1", Sec_Fetch_Site="cross-site").status == 403
    assert _posted(page, X_Steelyard="1", Sec_Fetch_Site="same-site").status == 403
    assert _posted(page, X_Steelyard="1", Origin=own, Sec_Fetch_Site="same-origin").status not in (401, 403)
    assert ask(page, _RESET, "POST", {}, {"X-Steelyard": "1"}).status == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_change_nothing(page: Page, method: str) -> None:
    assert ask(page, _RESET, method, {}, {"Authorization": f"Bearer {_TOKEN}"}).status == 403
    assert ask(page, _RESET, method, {}, {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}).status in (404, 405)


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/nothing", "/static/js/main.js", "/static/no", "/metrics"])
def test_every_answer_forbids_what_is_not_ours(page: Page, path: str) -> None:
    told = ask(page, path, headers={"Authorization": f"Bearer {_TOKEN}"}).headers
    rules = dict(rule.strip().split(" ", 1) for rule in told["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in told["content-security-policy"]
    assert (told["x-content-type-options"], told["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in told


def test_a_path_cannot_leave_the_files_of_the_page(page: Page) -> None:
    for path in ("/static/../page.py", "/static/..%2fpage.py", "/static//etc/passwd", "/static/vendor/LICENSE.htm"):
        assert ask(page, path).status == 404


def test_a_read_only_page_changes_nothing_and_says_so(tmp_path: Path) -> None:
    options = PageOptions(port=0, token=_TOKEN, read_only=True, audit=tmp_path / "audit.jsonl")
    with Page(_NOWHERE, options) as page:
        headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
        answer = ask(page, _RESET, "POST", {}, headers)
        assert (answer.status, answer.json["kind"]) == (403, "ReadOnly")
        assert get(page, "/api/about")["read_only"] is True
    assert json.loads((tmp_path / "audit.jsonl").read_text())["outcome"] == "refused: read-only"


def test_a_change_that_fails_leaves_its_line_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = tmp_path / "audit.jsonl"
    options = PageOptions(port=0, token=_TOKEN, audit=audit)
    with Page(_NOWHERE, options) as page, caplog.at_level(logging.WARNING, logger="steelyard.page.audit"):
        answer = ask(page, _RESET, "POST", {"x": 1}, {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"})
    assert answer.status >= 400
    (line,) = audit.read_text().splitlines()
    row = json.loads(line)
    assert row["who"].startswith("127.0.0.1:")
    assert row["outcome"].startswith("failed: ")
    assert [record.getMessage() for record in caplog.records if record.name == "steelyard.page.audit"] == [
        f"audit: {row['who']}: {row['what']}: {row['outcome']}"
    ]


def test_too_much_is_refused_before_it_is_read(page: Page) -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1"}
    answer = ask(page, _RESET, "POST", "x" * 2_000_000, headers)
    assert answer.status == 400
    assert "larger than" in answer.json["what"]


def test_metrics_take_the_token_where_other_machines_may_ask() -> None:
    with Page(_NOWHERE, PageOptions(port=0, token=_TOKEN, allow_remote=True)) as page:
        assert ask(page, "/metrics").status == 401
        assert ask(page, "/metrics", headers={"Authorization": f"Bearer {_TOKEN}"}).status != 401


@pytest.mark.parametrize(
    "make",
    [
        lambda: PageOptions(token="short"),
        lambda: PageOptions(token="with\nlines-and-more-of-it"),
        lambda: PageOptions(host="0.0.0.0"),
        lambda: PageOptions(port=-1),
    ],
)
def test_options_that_cannot_be_are_refused(make: Callable[[], PageOptions]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_the_usual_port_gives_way_to_whoever_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Listener.bind("127.0.0.1", 0)
    monkeypatch.setattr("steelyard.dashboard.page.PAGE_PORT", taken.port)
    try:
        with Page(_NOWHERE, PageOptions(token=_TOKEN)) as page:
            assert page.address != f"http://{taken.address}/"
            assert ask(page, "/").status == 401
    finally:
        taken.close()
    assert PAGE_PORT == 9877


def test_the_way_back_keeps_the_signs_of_names(page: Page) -> None:
    answer = ask(page, f"/topics/%25RETRY%25billing?token={_TOKEN}")
    assert answer.headers["location"] == "/topics/%25RETRY%25billing"


@pytest.mark.parametrize("other", ['prefs={"a": 1}', "a b=1", 'x="', "token", "caf\xe9=1", "a[0]=1"])
def test_cookies_of_others_at_this_host_shut_nobody_out(page: Page, other: str) -> None:
    assert ask(page, "/api/about", headers={"Cookie": f"{other}; {_cookie(page)}"}).status == 200
    assert ask(page, "/api/about", headers={"Cookie": other}).status == 401
