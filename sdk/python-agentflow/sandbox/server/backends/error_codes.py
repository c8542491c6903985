"""The codes that go over the wire."""

from enum import IntEnum


class ErrorCode(IntEnum):
    SUCCESS = 0
    INVALID_INPUT = 4000
    BUSINESS_FAILURE = 4001
    INVALID_REQUEST_FORMAT = 4002
    MISSING_REQUIRED_FIELD = 4003
    INVALID_PARAMETER_TYPE = 4004
    INVALID_URL_FORMAT = 4005
    NO_RESULTS_FOUND = 4006
    RESOURCE_NOT_INITIALIZED = 4007
    EXECUTION_ERROR = 5000
    API_KEY_NOT_CONFIGURED = 5002
    API_REQUEST_FAILED = 5003
    API_RESPONSE_PARSE_ERROR = 5004
    UNEXPECTED_ERROR = 5005
    TIMEOUT_ERROR = 5006
    CRAWLING_ERROR = 5007
    SUMMARIZATION_ERROR = 5008
    ALL_REQUESTS_FAILED = 5009
    PARTIAL_FAILURE = 5010
    BACKEND_NOT_INITIALIZED = 5011
    DEPENDENCY_FAILURE = 5012
    INTERNAL_ERROR = 5013


# What was asked is wrong, rather than what became of it.
INVALID = (ErrorCode.INVALID_INPUT, ErrorCode.INVALID_REQUEST_FORMAT, ErrorCode.MISSING_REQUIRED_FIELD,
           ErrorCode.INVALID_PARAMETER_TYPE, ErrorCode.INVALID_URL_FORMAT)


def get_error_message(code: int, details: str = "") -> str:
    """A code in words."""
    try:
        words = "success" if code == 0 else ErrorCode(code).name.replace("_", " ").capitalize()
    except ValueError:
        words = f"Error {code}"
    return f"{words}: {details}" if details else words
