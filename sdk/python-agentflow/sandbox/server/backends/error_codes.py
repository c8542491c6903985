"""The codes that go over the wire."""

from enum import IntEnum


class ErrorCode(IntEnum):
    SUCCESS = 0
    INVALID_INPUT = 4000
    BUSINESS_FAILURE = 4001
    INVALID_REQUEST_FORMAT = 4002
    MISSING_REQUIRED_FIELD = 4003
    INVALID_PARAMETER_TYPE = 4004
    EXECUTION_ERROR = 5005
    TIMEOUT_ERROR = 5006
