"""Say in words what each pattern of the schema allows, for readers of docs/values.md."""

from __future__ import annotations

import re

# Maps a pattern to the words that say what it allows. `make schema` fails if a pattern of the schema is missing here.
WORDS = {
    "^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$": "name of a Kubernetes object, or empty",
    "^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$": "value of a label, or empty",
    "^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]"
    "([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$": "key of a label",
    "^([a-z]([a-z0-9-]*[a-z0-9])?)?$": "a-z, 0-9 and -, or empty",
    "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$": "a-z, 0-9 and -",
    "^[1-9][0-9]*([.][0-9]+)?([kMGT]|[KMGT]i)?$": "memory such as 500M or 8Gi",
    "^[0-9]+([.][0-9]+)?m?$": "CPUs such as 2 or 500m",
    "^[0-9]+([.][0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?$": "amount such as 2, 500m or 10Gi",
    "^(/.+)?$": "an absolute path, or empty",
    "^(/.+|s3://[a-z0-9].*)?$": "s3://bucket/prefix, an absolute path, or empty",
    "^([a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*)?$": "resource of a node as domain/name, or empty",
    "^cluster$": "the word cluster",
    "^[A-Za-z0-9_.@-]+$": "name of a network interface",
    "^[A-Za-z0-9_.@-]*$": "name of a network interface, or empty",
    "^((25[0-5]|(2[0-4]|1[0-9]|[1-9])?[0-9])[.]){3}(25[0-5]|(2[0-4]|1[0-9]|[1-9])?[0-9])/(3[0-2]|[12][0-9]|[1-9])$": (
        "IPv4 network such as 10.0.0.0/16"
    ),
    "^[A-Za-z0-9][A-Za-z0-9._-]*(\\[[A-Za-z0-9,._-]+\\])?([=<>!~]=?[A-Za-z0-9.*+!,<>=~-]+)?$": (
        "package of pip, perhaps with a version"
    ),
    "^[A-Za-z0-9-]+$": "letters, digits and -",
    "^[1-9][0-9]*(ms|s|m|h)$": "time such as 30s or 5m",
    "^/": "path that begins with /",
    "^(sha256:[0-9a-f]{64})?$": "sha256: and 64 hexadecimal digits, or empty",
    "^(https?://[^\\s@]+)?$": "URL with http:// or https:// and without a login, or empty",
    "^(auto|[1-9][0-9]*)$": "auto, or a number of seconds",
    "^([^\\s@:]+(:[0-9]+/[^\\s@:]+)?(:[^\\s@:/]+)?(@[^\\s@]+)?)?$": "image with its tag or digest, or empty",
    "^([^\\s@:/]+(:[0-9]+)?(/[^\\s@:]*)?)?$": "host of a registry, perhaps with port and path, or empty",
    "^([A-Za-z0-9_][A-Za-z0-9._-]*)?$": "tag of an image, or empty",
    "^(([A-Za-z0-9.-]+([.][A-Za-z0-9-]+|:[0-9]+)/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)?$": (
        "image without tag and digest, or empty"
    ),
    "^([0-9]*[1-9][0-9]*[.]?[0-9]*|[0-9]*[.]0*[1-9][0-9]*)([eE][-+]?0*[0-9]{1,2})?$": "number above 0",
    "^(0([.][0-9]+)?|1([.]0+)?|[0-9]([.][0-9]+)?[eE]-0*[1-9][0-9]*)$": "number from 0 to 1",
    "^(0[.]0*[1-9][0-9]*|1([.]0+)?|[1-9]([.][0-9]+)?[eE]-0*[1-9][0-9]?)$": "number above 0 and up to 1",
    "^(0([.][0-9]+)?|[0-9]([.][0-9]+)?[eE]-0*[1-9][0-9]*)$": "number from 0 to below 1",
    "^[A-Za-z0-9._-]+$": "letters, digits, ., _ and -",
}
# The pattern of trainer.model begins with the names of the models. After them, it allows `module:function`.
MODEL = re.compile(r"\^\((?P<names>\w+(?:\|\w+)*)\|\[A-Za-z_\]")


def words_of(pattern: str) -> str:
    """Return the words that say what the pattern allows. Raise ValueError if no words are known for the pattern."""
    if model := MODEL.match(pattern):
        return f"{model['names'].replace('|', ', ')} or module:function"
    if pattern not in WORDS:
        raise ValueError(f"schemas/pattern_words.py: no words for the pattern {pattern}; add an entry to WORDS")
    return WORDS[pattern]
