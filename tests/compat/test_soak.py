"""A sample of soak.py, which says what it is about. SOAK_SECONDS=300 is the whole."""

import os

import soak


def test_200_workers_at_once_without_error_cross_talk_or_growth():
    assert soak.soak(float(os.environ.get("SOAK_SECONDS", "15"))) == []
