"""The error codes."""

from codelab.protocol.errors import ALIASES, FACTS, ErrorCode, ProtocolError, known_code

from tests.cases import cases


def test_every_code_is_documented() -> None:
    assert list(FACTS) == list(ErrorCode)
    for facts in FACTS.values():
        assert facts.meaning
        assert facts.occasion.endswith(".")
        assert facts.places


def test_all_codes_of_the_documents_exist() -> None:
    documents = {
        "WebSocket Protocol": "INVALID_FORMAT INVALID_TYPE MISSING_FIELD INVALID_CALL_ID TOOL_NOT_FOUND "
        "TOOL_EXECUTION_ERROR SESSION_EXPIRED UNAUTHORIZED",
        "Agent Protocol": "FILE_NOT_FOUND PERMISSION_DENIED INVALID_ARGUMENTS TOOL_NOT_FOUND EXECUTION_FAILED TIMEOUT "
        "AGENT_ERROR LLM_ERROR",
        "Tools Specification": "FILE_NOT_FOUND FILE_TOO_LARGE PERMISSION_DENIED INVALID_PATH PATH_OUTSIDE_WORKSPACE "
        "GIT_NOT_INITIALIZED GIT_ERROR PATCH_APPLY_FAILED ENCODING_ERROR TOOL_NOT_FOUND INVALID_ARGUMENTS",
        "Agent Runtime API": "SESSION_NOT_FOUND INVALID_TOOL TOOL_EXECUTION_FAILED CONTEXT_TOO_LARGE LLM_ERROR "
        "DATABASE_ERROR",
    }
    for codes in documents.values():
        for name in codes.split():
            assert name in ErrorCode.__members__ or name in ALIASES, name


@cases(
    ("name", "code"),
    [
        ("GIT_ERROR", "GIT_ERROR"),
        ("TOOL_EXECUTION_ERROR", "EXECUTION_FAILED"),
        ("TOOL_EXECUTION_FAILED", "EXECUTION_FAILED"),
        ("INVALID_TOOL", "TOOL_NOT_FOUND"),
        ("MY_OWN_CODE", "EXECUTION_FAILED"),
        ("", "EXECUTION_FAILED"),
    ],
)
def test_aliases_of_codes_are_accepted(name: str, code: str) -> None:
    assert known_code(name).value == code


def test_an_errors_retryable_defaults_to_that_of_its_code() -> None:
    assert ProtocolError(ErrorCode.BUSY, "x").retryable is True
    assert ProtocolError(ErrorCode.LLM_ERROR, "x").retryable is False
    assert ProtocolError(ErrorCode.LLM_ERROR, "x", retryable=True).retryable is True
