"""Every failure ends with the code of its kind, and with one line."""

import socket

import pytest

from steelyard import errors
from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("no"), ExitCode.USAGE),
        (errors.UnknownStrategy("x", known=("a",)), ExitCode.USAGE),
        (errors.NotAStore("no"), ExitCode.USAGE),
        (errors.error_for(17, "no", server="b"), ExitCode.NOT_FOUND),
        (errors.error_for(26, "no", server="b"), ExitCode.NOT_FOUND),
        (errors.NoRoute("no"), ExitCode.NOT_FOUND),
        (errors.error_for(16, "no", server="b"), ExitCode.REFUSED),
        (errors.error_for(13, "no", server="b"), ExitCode.REFUSED),
        (errors.NoNameServer("no"), ExitCode.UNREACHABLE),
        (errors.CannotConnect("no"), ExitCode.UNREACHABLE),
        (errors.ConnectionClosed("no"), ExitCode.UNREACHABLE),
        (errors.TimedOut("no"), ExitCode.TIMED_OUT),
        (errors.SendFailed("no"), ExitCode.FAILED),
        (errors.ImpossibleEvent("t@b:0", state="OWNED", event="PULLED"), ExitCode.BUG),
        (errors.error_for(1, "no", server="b"), ExitCode.FAILED),
        (errors.error_for(2, "no", server="b"), ExitCode.FAILED),
        (errors.MalformedBody("no", where="body"), ExitCode.FAILED),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, errors.SteelyardError) else "",
)
def test_an_error_has_the_exit_code_of_its_kind(error: errors.SteelyardError, code: ExitCode) -> None:
    assert exit_code_for(error) is code


@pytest.mark.parametrize(
    "verb",
    [
        ("send", "orders", "--body", "hello"),
        ("consume", "orders"),
        ("consume", "orders", "--group", "billing"),
        ("group", "ls"),
        ("group", "explain", "billing"),
        ("group", "watch", "billing"),
        ("plan", "--group", "billing", "--join", "new-1"),
    ],
    ids=" ".join,
)
def test_nobody_there_is_one_line_and_exit_code_five(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    # Port 1 is nobody's on a machine of ours, and refuses at once.
    assert main([*verb, "--namesrv", "127.0.0.1:1", "--timeout", "0.2"]) == ExitCode.UNREACHABLE
    output = capsys.readouterr()
    assert output.out == ""
    (sentence,) = output.err.splitlines()
    assert sentence.startswith("steelyard: ")
    assert "127.0.0.1:1" in sentence


def test_a_refused_connection_is_reported_at_once_and_tried_again_only_if_a_time_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for given, waited in (((), ""), (("--timeout", "0.1"), " in 0.1 s")):
            assert main(["topic", "ls", "--namesrv", address, *given]) == ExitCode.UNREACHABLE
            said = (
                f"no name server of {address} was reached{waited} ({address} cannot be reached (connection refused));"
            )
            assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        (["send", "orders"], "there is nothing to send"),
        (["send", "orders", "--body", "x", "--lines"], "several sources"),
        (["send", "orders", "hello"], "to send it, write: --body 'hello'"),
        (["send", "orders", "--body", "x", "--output", "xml"], "'xml' is not one of 'table'"),
        (["send", "orders", "--body", "x", "--delay", "soon"], "'soon' is no span of time"),
        (["send", "orders", "--body", "x", "--keys", "a b"], "contains a blank"),
        (["send", "orders", "--body", "x", "--namesrv", "nowhere"], "'nowhere' is not an address"),
        (["send", "orders", "--body", "x", "--access-key", "shop"], "without its secret"),
        (["send", "orders", "--body", "x", "--namespace", "a b"], "the namespace is 'a b'"),
        (["send"], "Missing argument"),
        (["send", "orders", "--body", "x", "--property", "region"], "write it as name=value"),
        (["send", "orders", "--body", "x", "--property", "KEYS=a"], "'KEYS' of a message to 'orders' is reserved"),
        (["send", "orders", "--body", "x", "--queue", "broker-0"], "write it as BROKER:ID"),
        (["send", "orders", "--body", "x", "--delimiter", ","], "give --lines too"),
        (["send", "orders", "--body", "x", "--format", "%T"], "--format has no directive %T"),
        (["send", "orders", "--lines", "--delimiter", ""], "a delimiter is empty"),
        (["send", "orders", "--lines", "--delimiter", r"\q"], r"--delimiter has no escape"),
        (["consume", "orders", "--format", "%x"], "--format has no directive %x"),
        (["consume", "orders", "--format", "%s", "--json"], "exclude each other"),
        (["consume", "orders", "--tags", "a", "--sql", "b = 1"], "exclude each other"),
        (["consume", "orders", "--orderly"], "--orderly needs a group"),
        (["consume", "orders", "--events", "json"], "--events needs a group"),
        (["consume", "orders", "--group", "g", "--events", "xml"], "give json"),
        (["consume", "orders", "--group", "g", "--from", "-5"], "--from -5 is not for a group"),
        (["consume", "orders", "--from", "whenever"], "'whenever' is no time"),
        (["consume", "orders", "orders"], "a topic is named twice"),
        (["plan", "--join", "c1"], "give --group"),
        (["plan", "--group", "g", "--queues", "4"], "--group already gives"),
        (["plan", "--group", "g", "--strategy", "stick"], "did you mean"),
        (["group", "explain"], "Missing argument"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_two(
    verb: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(verb) == ExitCode.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (sentence,) = output.err.splitlines()
    assert why in sentence


def test_what_others_wrote_is_no_command_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", "--from", "\x1b[2J"]) == ExitCode.USAGE
    assert "\x1b" not in capsys.readouterr().err
