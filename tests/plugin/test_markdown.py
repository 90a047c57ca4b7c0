"""Test that a user's text is not read as markup by a renderer of CommonMark and GitHub's dialect."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from distrain import redact
from distrain.markdown import code, text

WORDS = [
    pytest.param("**bold** and _slanted_ and ~~struck~~", id="emphasis"),
    pytest.param("[click](https://evil.example)", id="link"),
    pytest.param("![picture](https://evil.example/a.png)", id="image"),
    pytest.param("<script>alert(1)</script>", id="html"),
    pytest.param("https://evil.example and www.evil.example", id="bare-link"),
    pytest.param("&lt; is an entity", id="entity"),
    pytest.param("a\\*b \\", id="backslash"),
    pytest.param("a | b", id="table"),
    pytest.param("$x^2$", id="mathematics"),
    pytest.param("plain words: 2 of 4 (nvidia.com/gpu) - 100%", id="plain"),
]
TEXT, CODE = "text", "code_inline"


def _spans(markdown: str) -> list[tuple[str, str]]:
    """Return the kind and content of each inline part of a text that is a single paragraph."""
    _, inline, _ = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    return [(part.type, part.content) for part in inline.children or () if part.content or part.type not in (TEXT,)]


@pytest.mark.parametrize("words", [*WORDS, pytest.param("`a` ``b`` `", id="backticks")])
def test_code_span_holds_exactly_the_words(words: str) -> None:
    assert _spans(code(words)) == [(CODE, words)]


@pytest.mark.parametrize("words", WORDS)
def test_text_is_rendered_as_the_words(words: str) -> None:
    spans = _spans(text(words))

    assert {kind for kind, _ in spans} <= {TEXT, "text_special", CODE}
    assert "".join(content for _, content in spans) == words


def test_lines_of_a_value_do_not_begin_a_new_block() -> None:
    assert _spans(code("a\n# b\n\n- c")) == [(CODE, "a # b - c")]
    assert text("a\n# b\n\n- c") == "a `#` b - c"


@pytest.mark.parametrize("word", ["@all", "#12", "https://a.example", "group/project#3", "me@a.example"])
def test_word_that_would_notify_or_link_is_code(word: str) -> None:
    assert text(f"see {word} now") == f"see `{word}` now"


def test_command_in_a_text_stays_code() -> None:
    assert text("run `helm list -a_b`, then") == "run `helm list -a_b`, then"


@pytest.mark.parametrize("words", ["`q`@a`@octocat", "`q`@a`@octocat,", "@a`b`@c", "@a`b``c`@d *", "``@a`b"])
def test_code_spans_side_by_side_let_no_mention_out(words: str) -> None:
    spans = _spans(text(words))

    assert [content for kind, content in spans if kind != CODE and "@" in content] == []


@pytest.mark.parametrize(
    "words", ["the server said a_secret_of_mine", "Authorization: Bearer abcdefgh_ijklmnop_qrstuvwxyz"]
)
def test_secret_is_hidden_although_its_characters_would_be_escaped(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_known", {"a_secret_of_mine"})

    assert redact.redact(text(words)).endswith(r" \[hidden\]")
