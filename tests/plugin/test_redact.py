"""Test which parts of messages are hidden because they may be secret."""

from __future__ import annotations

import pytest

from distrain import redact
from distrain.errors import UnreachableError


def test_known_secret_is_left_out_of_every_error() -> None:
    redact.remember("geheim7f3a")

    assert str(UnreachableError("the server says geheim7f3a")) == "the server says [hidden]"


def test_short_text_is_no_secret() -> None:
    redact.remember("admin")

    assert redact.redact("the user admin") == "the user admin"


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nglobal:\n  apiToken: *geheim7f3a\n",
        '{"DB_PASSWORD": "geheim7f3a", "x": 1}',
        "global.secret=x,geheim7f3a",
    ],
)
def test_word_behind_a_telling_name_is_remembered(text: str) -> None:
    redact.remember_in(text)

    assert redact.redact("cannot read geheim7f3a of apiToken") == "cannot read [hidden] of apiToken"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pass@host:1/x", "https://[hidden]@host:1/x"),
        ('"http://me:p/a@s@host"', '"http://[hidden]@host"'),
        ('Get "https://host/x?sig=ab&token=c": refused', 'Get "https://host/x?[hidden]": refused'),
        ('Post "https://host/x?timeout=10s": refused', 'Post "https://host/x?timeout=10s": refused'),
        ('Post "https://host/x?timeout=10s&token=c": refused', 'Post "https://host/x?[hidden]": refused'),
        ("Authorization: Bearer abcdefgh.ijklmnop.q", "Authorization: Bearer [hidden]"),
        ("use Basic authentication", "use Basic authentication"),
        ("https://host/x and me@host", "https://host/x and me@host"),
        ("https://a?b://me:p@host", "https://[hidden]@host"),
        ("me@a://host/x?", "me@a://host/x?"),
    ],
)
def test_login_is_left_out_of_a_url(text: str, expected: str) -> None:
    assert redact.redact(text) == expected


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("global.apiToken", "x", "[hidden]", id="name"),
        pytest.param(
            "global", {"db": {"PASSWORD": "x", "host": "h"}}, {"db": {"PASSWORD": "[hidden]", "host": "h"}}, id="block"
        ),
        pytest.param("x-list", [{"clientSecret": "x"}], [{"clientSecret": "[hidden]"}], id="list"),
        pytest.param("env[0].value", "x", "[hidden]", id="environment"),
        pytest.param("workers.sidecars[0].env[0].value", "x", "[hidden]", id="environment-of-a-sidecar"),
        pytest.param("initContainers", [{"name": "a", "args": ["x"]}], [{"name": "a", "args": ["[hidden]"]}], id="arg"),
        pytest.param("launcher.podSpec.initContainers[1].command[2]", "x", "[hidden]", id="container-of-podSpec"),
        pytest.param("workers.sidecars[0].image", "x", "x", id="image-of-a-sidecar"),
        pytest.param("command[2]", "x", "[hidden]", id="command"),
        pytest.param("data.uri", "https://me:x@host", "https://[hidden]@host", id="url"),
        pytest.param("s3.region", "eu", "eu", id="other-name"),
        pytest.param("s3.secretName", "Bad_Name", "Bad_Name", id="name-of-a-secret"),
        pytest.param("s3.secretName", "AKIA0123456789ABCDEF", "[hidden]", id="secret-in-place-of-its-name"),
        pytest.param("image", {"pullSecrets": ["a"]}, {"pullSecrets": ["a"]}, id="names-of-pull-secrets"),
        pytest.param("podSpec.imagePullSecrets[0].name", "a", "a", id="name-of-a-pull-secret"),
        pytest.param("s3.caBundle.key", "ca.crt", "ca.crt", id="key-of-a-config-map"),
        pytest.param("workers.tolerations[0].key", "gpu", "gpu", id="key-of-a-taint"),
        pytest.param("volumes[0].secret.secretName", "a", "a", id="volume"),
        pytest.param("s3.secretNames", "x", "[hidden]", id="almost-a-name"),
        pytest.param("s3.key", "x", "[hidden]", id="key"),
        pytest.param("x-run.tokenizer", "bert", "bert", id="tokenizer"),
        pytest.param("x-run.TOKEN_IZER", "x", "[hidden]", id="token"),
        pytest.param("workers.replicas", 2, 2, id="number"),
        pytest.param("global.token", None, None, id="null"),
    ],
)
def test_value_under_a_telling_name_is_hidden(path: str, value: object, expected: object) -> None:
    assert redact.shown(path, value) == expected


@pytest.mark.parametrize(
    ("part", "expected"), [("://", "://" * 300_000), ("://a?", "://a?[hidden]"), ("://a@", "://[hidden]@")]
)
def test_cost_of_a_long_word_does_not_grow_with_the_square_of_its_length(part: str, expected: str) -> None:
    # If the time grew with the square of the length, this test would run for hours.
    assert redact.redact(part * 300_000) == expected
