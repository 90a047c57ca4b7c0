"""Change texts and objects at random places, so that they become invalid.

The same seed of the random generator gives the same changes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

# Each of these values is invalid in almost every field.
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 3, 0.5, 1e300, 10**30, -(2**63), "", " ", "x", "two", "1Gi", "1.5m", "-1", "1e999"),
    *("é", "日本語", "a\u202eb", "a\x00b", "a\nb", "\x1b[31mred", "\ud800", "x" * 5000, "9" * 5000, "{{ .Values }}"),
    *("http://[::1", "https://a:b@c:99999", "../../etc/passwd", "2024-01-01", "12:30", "=", "yes", "~", "$(id)", "*"),
    *([], {}, [1], [None], ["a"], [[[]]], {"a": 1}, {"": ""}, {"a": None}, {"name": []}, [{}], [{"name": 5}]),
]
# Once the changes have added this number of parts to a tree, the tree is changed no further.
MOST_NEW_PLACES = 3000
# Contents of complete files with which the program cannot work.
OTHER_FILES = [
    *(b"", b"\n", b"null", b"[]", b"{}", b"5", b'"text"', b"[1]", b"items: [1]", b"metadata: foo", b"---\n---\n"),
    *(b"<!DOCTYPE html>\n<html><body>502</body></html>", b"%PDF-1.7\n\xff\xfe", b"\x1f\x8b\x08\x00abc", b"\x00" * 64),
    *(b"a: \xfc\n", "a: é".encode("latin-1"), "a: 1\n".encode("utf-16"), b"\xef\xbb\xbfa: 1\n", b"a:\tb\n\tc: d\n"),
    *(b"[" * 50_000, b"{a: " * 3000, b"- " * 5000, b"a: &a [*a]", b"a: &a\n  <<: *a\n", b"? [1, 2]\n: 3\n", b"~: 1\n"),
    *(b"a: 1\na: 2\n", b"&a a: *b", b"!!python/object:os.system x", b"a: !!int x", b"a: !!binary '%'", b"a: .inf\n"),
    *(b"x-a: %s1%s\n" % (b"[" * 3000, b"]" * 3000), b"x-a: %s1%s\n" % (b"{a: " * 3000, b"}" * 3000)),
    b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 120)),
]


def broken_object(random: Random, tree: Any) -> Any:
    """Return the tree with one to four random changes, or with many."""
    tree = copy.deepcopy(tree)
    most = len(list(_places(tree))) + MOST_NEW_PLACES
    for _ in range(random.choice([1, 1, 1, 2, 4, 20])):
        places = list(_places(tree))
        if 0 < len(places) < most:
            holder, key = random.choice(places)
            random.choice(CHANGES)(random, holder, key)
    return tree


def broken_text(random: Random, text: bytes) -> bytes:
    """Return the text with up to three changes."""
    for _ in range(random.choice([1, 1, 2, 3])):
        text = random.choice(TEXT_CHANGES)(random, text)
    return text


def _places(tree: Any) -> Any:
    """For each part of the tree, yield its parent (a map or a list), and its key or index in the parent."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _replace(random: Random, holder: Any, key: Any) -> None:
    holder[key] = copy.deepcopy(random.choice(ODD))


def _delete(random: Random, holder: Any, key: Any) -> None:
    del holder[key]


def _rename(random: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        text = str(key)
        cut = random.randrange(len(text) + 1)
        holder[random.choice([text[:cut] + text[cut + 1 :], text.upper(), f"{text}s", "é", "", 5, None])] = holder.pop(
            key
        )


def _wrap(random: Random, holder: Any, key: Any) -> None:
    holder[key] = random.choice([[holder[key]], {"a": holder[key]}, json.dumps(holder[key], default=str)])


def _repeat(random: Random, holder: Any, key: Any) -> None:
    holder[key] = [copy.deepcopy(holder[key])] * random.choice([2, 30])


def _add(random: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[random.choice(["extra", "name", "items", "spec", "<<", "é" * 300])] = copy.deepcopy(random.choice(ODD))


CHANGES: list[Callable[[Random, Any, Any], None]] = [
    *(_replace, _replace, _replace, _delete, _rename, _wrap, _repeat, _add),
]


def _cut(random: Random, text: bytes) -> bytes:
    return text[: random.randrange(len(text) + 1)]


def _insert(random: Random, text: bytes) -> bytes:
    place = random.randrange(len(text) + 1)
    signs = [b"\xff", b"\x00", b"\t", b"\xef\xbb\xbf", b"\r\n", b":", b"{", b"]", b"'", b"*a", b"%", b"\x1b", b"\xc3"]
    return text[:place] + random.choice(signs) + text[place:]


def _swap_lines(random: Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _indent(random: Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    place = random.randrange(len(lines))
    lines[place] = random.choice([b"  ", b"\t", b"- ", b" " * 300, b"# "]) + lines[place]
    return b"\n".join(lines)


def _double(random: Random, text: bytes) -> bytes:
    place = random.randrange(len(text) + 1)
    return text[:place] + text[place : place + 200] * 2 + text[place + 200 :]


def _other(random: Random, text: bytes) -> bytes:
    return random.choice(OTHER_FILES)


def _recode(random: Random, text: bytes) -> bytes:
    return text.decode(errors="replace").encode(random.choice(["utf-16", "utf-8-sig", "utf-32"]))


TEXT_CHANGES: list[Callable[[Random, bytes], bytes]] = [
    *(_cut, _insert, _insert, _swap_lines, _indent, _double, _other, _recode),
]


def as_yaml(*documents: Any) -> bytes:
    """Write documents as YAML, even if they contain objects that JSON cannot express."""
    return yaml.safe_dump_all(documents, allow_unicode=False).encode(errors="surrogatepass")


def as_json(tree: Any) -> bytes:
    """Write JSON. If a map has the key None, Python writes this key as "null"."""
    return json.dumps(tree).encode()


def broken_file(random: Random, tree: Any, write: Callable[[Any], bytes]) -> bytes:
    """Break the objects, the text that `write` makes from them, or both."""
    way = random.random()
    text = write(broken_object(random, tree) if way < 0.75 else tree)
    return broken_text(random, text) if way > 0.7 else text
