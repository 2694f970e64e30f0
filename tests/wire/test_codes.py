from steelyard.errors import ServerError, error_class
from steelyard.wire.codes import LANGUAGES, STORED_CODES, RequestCode, ResponseCode
from steelyard.wire.headers import HEADER_OF_REQUEST
from tests.wire.header_table import HEADER_OF_RESPONSE

PULL_RESULT_CODES = frozenset({0, 19, 20, 21})


def test_every_response_code_is_a_result_or_has_an_error_of_its_own() -> None:
    results = STORED_CODES | PULL_RESULT_CODES
    for code in ResponseCode:
        assert (code in results) is (error_class(code) is ServerError), code.name


def test_headers_are_declared_for_known_requests_only() -> None:
    assert {*HEADER_OF_REQUEST, *HEADER_OF_RESPONSE} <= set(RequestCode)


def test_languages_have_their_numbers() -> None:
    assert [LANGUAGES.index(name) for name in ("JAVA", "PYTHON", "OTHER", "GO", "NODE_JS")] == [0, 3, 7, 9, 13]
