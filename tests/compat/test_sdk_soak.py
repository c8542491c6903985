"""A sample of sdk_soak.py, which says what it is about; the ratio of its times needs the whole, five minutes, on a quiet machine."""

import os

import sdk_soak


def test_64_sessions_through_the_async_client_without_an_error_or_a_leak():
    wrong, _ = sdk_soak.soak(float(os.environ.get("SOAK_SECONDS", "8")))
    assert wrong == []
