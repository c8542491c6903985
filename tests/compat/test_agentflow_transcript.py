"""The recorded transcript of the original server, replayed; see agentflow_transcript.py."""

import pathlib
import re

import pytest

import agentflow_transcript as transcript

DOC = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "compat.md").read_text()


@pytest.fixture(scope="module")
def results():
    return transcript.replay()


@pytest.mark.parametrize("label", [row["label"] for row in transcript.ROWS])
def test_transcript(results, label):
    assert results[label] == []


def test_every_recorded_call_is_replayed_or_says_why_not():
    labels = {row["label"] for row in transcript.ROWS}
    assert len(labels) == len(transcript.ROWS) and not labels & set(transcript.SKIPPED)
    assert len(labels) + len(transcript.SKIPPED) == transcript.RECORDED
    assert set(transcript.DIFFERENT) <= labels and transcript.BROKEN <= labels


def test_every_difference_is_documented_and_every_documented_one_is_seen():
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*)$", DOC, re.M))
    used = {name for name, _ in transcript.DIFFERENT.values()}
    assert used <= set(rows), "not in docs/compat.md"
    unseen = {name for name, text in rows.items() if "(not in the transcript)" in text}
    assert set(rows) - used == unseen, "docs/compat.md names differences that the transcript does not show"


def test_every_added_key_is_documented():
    for keys in transcript.ADDED.values():
        for key in keys:
            assert f"`{key}`" in DOC, key


@pytest.mark.parametrize("want, got", [
    ({"a": 1}, {}), ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": True}), ({"a": "x"}, {"a": None}), ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": [1]}, {"a": [1, 2]}), ({"meta": {"tool": "a"}}, {"meta": {"tool": "b"}}), ({"data": {"x": {}}}, {"data": {"x": []}})])
def test_the_comparison_sees_differences(want, got):
    assert transcript.compare(want, got)
