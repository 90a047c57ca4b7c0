"""Keep secrets out of messages: known secrets, logins in URLs, and values whose names look like a secret's."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from typing import Any

HIDDEN = "[hidden]"
# A word that may be a URL. The parts of a URL are found without a regular expression, which would take hours for a word
# with a million times "://".
ADDRESS = re.compile(r"[^\s\"'`]+")
# Of all URL queries, only this one is shown: the API server adds it to a webhook's URL in its message about a time-out.
HARMLESS = re.compile(r"timeout=\d+m?s")
# A credential in a header. It may be one that the plugin does not know: Helm may get its own credential from an exec
# plugin.
CREDENTIAL = re.compile(r"\b(Bearer|Basic) [\w.~+/=-]{16,}")
# The values at these paths of the chart may be secrets, whatever their keys are called.
PLACES = re.compile(
    r"((workers|launcher|servers|scheduler)\.)?"
    r"((podSpec\.)?(sidecars|initContainers)(\[\d+\])?\.(env|envFrom|command|args)|env|envFrom)\b"
    r"|(command|trainer\.extraArgs)\b"
)
# The word "tokenizer" does not mean a secret.
NAMES = re.compile(r"token(?!i[sz])|passw|secret|credential|key", re.IGNORECASE)
# Values at these paths only name something: a Secret, a key of a Secret or ConfigMap, a label or a taint.
REFERENCES = re.compile(
    r"(^|\.)(secretName|(image)?[pP]ullSecrets(\[\d+\])?(\.name)?|caBundle\.key|secret\.name|\w*[sS]ecret(Key)?Ref\.(name|key)"
    r"|topologyKey|(mis)?matchLabelKeys|(tolerations|matchExpressions)(\[\d+\])?\.key)(\[\d+\])?$"
)
# At such a path, a user may have written the secret itself. So the value is shown only if it looks like a name, or if
# it is a short word.
REFERENCE = re.compile(r"[a-z0-9]([-a-z0-9._/]*[a-z0-9])?|[\w.-]{1,15}")
# A key that suggests a secret, and the rest of its line, in YAML, in JSON or in a flag.
ENTRY = re.compile(rf"(?:{NAMES.pattern})[\w.\-]*[\"']?\s*[:=](.*)", re.IGNORECASE)
WORD = re.compile(r"[^\s\"'`,:=*&!{}\[\]]+")
# Shorter secrets are not hidden, because they could also be a part of some normal word.
SHORTEST = 8
_known: set[str] = set()


def remember(secret: str) -> None:
    """Hide a secret in all later messages, because a server, a proxy or Helm may repeat it in an error."""
    if len(secret) >= SHORTEST:
        _known.add(secret)


def remember_in(text: str) -> None:
    """Remember secrets in a text that cannot be parsed: the values that have secret-like names.

    An error may quote the text.
    """
    for entry in ENTRY.findall(text):
        for word in WORD.findall(entry):
            remember(word)


def redact(message: str) -> str:
    """Return a message without known secrets, logins and queries in URLs, and credentials from headers."""
    # Replace the longest secrets first, because one secret may be a part of another.
    for secret in sorted(_known, key=len, reverse=True):
        message = message.replace(secret, HIDDEN)
    if "://" in message:
        message = ADDRESS.sub(lambda word: _bare(word[0]), message)
    return CREDENTIAL.sub(rf"\1 {HIDDEN}", message)


def _bare(word: str) -> str:
    """Return a URL without user, password and query. Return any other word unchanged.

    In links to many stores, the query contains a signature or a token.
    """
    scheme, slashes, rest = word.partition("://")
    _, at, place = rest.rpartition("@")
    rest = f"{HIDDEN}@{place}" if at else rest
    path, mark, query = rest.partition("?")
    query = HIDDEN if query and not HARMLESS.fullmatch(query) else query
    return f"{scheme}{slashes}{path}{mark}{query}" if slashes else word


def is_secret(path: str) -> bool:
    """Tell whether the value at a path may be a secret."""
    return bool(PLACES.match(path) or (NAMES.search(path) and not REFERENCES.search(path)))


def shown(path: str, value: Any) -> Any:
    """Return a value in which the secrets are hidden. In a mapping or list, hide the secrets in each entry."""
    if isinstance(value, dict):
        return {key: shown(f"{path}.{key}" if path else key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [shown(path, each) for each in value]
    is_hidden = value not in (None, "") and (is_secret(path) or _is_no_reference(path, value))
    return HIDDEN if is_hidden else redact(value) if isinstance(value, str) else value


def _is_no_reference(path: str, value: Any) -> bool:
    """Tell whether a value that should be the name of an object, such as a Secret, cannot be a name.

    It may then be a secret itself.
    """
    return bool(REFERENCES.search(path)) and not REFERENCE.fullmatch(str(value))
