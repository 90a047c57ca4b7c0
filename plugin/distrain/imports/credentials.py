"""Remove credentials from a source, wherever they occur, and name the Secret that must hold them instead.

A value is treated as a credential if its name or its form is that of a credential. This module has its own patterns for
names, because `redact.NAMES` also matches options such as `--max-tokens 512`, which an import must keep. The forms are
a login in a URL, the header of a key, and the tokens of clouds and hubs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from distrain.imports.launch import shell
from distrain.imports.secrets import logins
from distrain.imports.secrets.names import OF_NAME, has_parts
from distrain.redact import HIDDEN, SHORTEST, redact, remember

# Split a name into its words: access_key_id, accessKeyId and access-key-id all have three words.
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CERTAIN = re.compile(
    r"token$|passw|passcode|^pass$|pwd?$|^psw$|passphrase|^secrets?$|secret$|(secret|access|private)key|^credentials?$|creds$|apikey"
    r"|^auth$|authorization|^bearer$|cookies?$|^dsn$|^[ht]?otp$|^dockerconfigjson$|^webhook$|^[as]k$|^akid$|^aksk$"
    r"|(access|secret)id$"
)
# A name that ends with one of these pairs of words belongs to a login: OSS_ACCESS_ID, ALIYUN_AK_ID, user_name.
PAIRS = {("access", "id"), ("ak", "id"), ("sk", "id"), ("user", "name")}
# The value of a name with one of these words is a credential even if it is a number. Under other names, numbers are
# harmless.
NUMERIC = re.compile(r"passw|passphrase|^pin$")
# A name with one of the words in UNCERTAIN may also have a harmless value: the path of a file, as in --pat /run/pat, or
# a word without digits. Its value is a credential only if RANDOM matches it.
RANDOM = re.compile(r"(?!/|https?://)(?=\D*\d).{8,}", re.DOTALL)
UNCERTAIN = {"pat", "sas", "tok", "netrc", "keytab", "api"}
# A name that ends in one of these words describes an object: SECRET_NAME is the name of a secret, not a secret.
OF_OBJECT = {"name", "file", "path", "dir", "ref", "namespace", "size", "len", "length", "type", "limit", "count"}
# The word `key` marks a credential if one of these words precedes it. After any other word, as in --label-key species,
# the value decides: if the value looks like a plain word, it is not a credential.
OF_KEY = {"access", "api", "secret", "private", "auth", "account", "ssh", "encryption", "signing", "license", "storage"}
LOGIN = {"user", "username", "login"}
# Values that are never credentials, whatever name they have.
HARMLESS = re.compile(r"(?i)(true|false|yes|no|on|off|none|null|auto|-?\d{1,6}(\.\d+)?|…|)")
# A reference to a variable, which stands in place of a value: as a shell, Kubernetes or Windows writes it.
VARIABLE = re.compile(r"\$(\(\w+\)|\{\w+\}|\w+)|%\w+%")
# A value that a script reads at run time: $TOKEN, ${TOKEN:-}, $(cat /run/token), Bearer $TOKEN.
REFERENCE = re.compile(r"(?:(?:Basic|Bearer)\s+)?(?:\$[({].*|`.*|\$\w+|%\w+%)", re.DOTALL)
# A random text of at least 20 letters and digits. Words, paths and hexadecimal hashes do not match.
RANDOM_TEXT = re.compile(
    r"(?<![\w/+.@%-])(?=(?:[a-z0-9]*[A-Z]){3})(?=(?:[A-Z0-9]*[a-z]){3})(?=(?:[A-Za-z]*\d){3})[A-Za-z0-9]{20,}(?![\w/+.-])"
    r"|(?<![\w/+.@%-])(?=(?:[^\sA-Z]*[A-Z]){6})(?=(?:[^\sa-z]*[a-z]){6})(?=(?:[^\s\d]*\d){3})[A-Za-z0-9/+]{40}(?![\w/+.=-])"
)
FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*-----|\Z)|(?:\b(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abeprs]-|xapp-|npm_|pypi-|dckr_pat_|glsa_|nvapi-|GOCSPX-|ya29\."
    r"|[sr]k_live_|gsk_|AGE-SECRET-KEY-)[\w-]{8,}|\bAIza[\w-]{16,}|\bdapi[0-9a-zA-Z]{16,}|\bsk-[\w-]{16,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,})[^\s\"'`;&|<>(){},\\]*",
    re.DOTALL,
)
# The pattern URL finds a URL in a text, and SECRET_URL finds the part that makes a URL secret: a login, a token in
# place of a user name, a signature, or the path of a webhook. In an HTTP URL, a user name without a password is a
# token; in other URLs, such as hdfs://, abfss:// and ssh://, it is common. The pattern URL also finds a login before a
# host without a scheme, but not an image's name before a digest.
URL = re.compile(
    r"\b[A-Za-z][\w+.-]*://[^\s\"'?#]*:[^\s@\"']*@[^\s\"'`<>|;]*|\b[A-Za-z][\w+.-]*://[^\s\"'`<>|;]+"
    r"|(?<![\w:@.-])(?!mailto:)[A-Za-z][\w.+%-]*:(?!//|\d+@)[^\s@\"'`]+@(?!\w+:[0-9a-f]{32})[A-Za-z0-9][\w.-]*"
)
SECRET_URL = re.compile(
    r"^(?!\w[\w+.-]*://)[^:]+:(?!\$[({]?\w+[)}]?@)|://[^\s?#]{0,300}:(?!\$[({]?\w+[)}]?@)[^@\s]{0,300}@(?!\w+:[0-9a-f]{32})|https?://(?!git@|\$)[^/\s@?#:]{1,300}@"
    # A token that contains a slash. The text before this slash contains no dot, so it does not look like a host's name.
    r"|https?://[^/\s@?#:.]{8,300}/[^\s@?#]{0,300}@[A-Za-z][\w-]*\."
    # A login without its @, which a special character of the shell has cut off. The text after the colon is not just a
    # port number, so it may be a password.
    r"|(?<!docker)(?<!oci)://[^/\s:@]{1,300}:(?=[^\s/]{0,300}\d)(?!\d+(?:[/?#,]|$)|[\[{<%$*:])[^/\s]{8,}"
    r"|[?&](?:X-Amz-|[\w-]*(?:sig|token|key|secret|passw|pwd|auth|cred)[\w-]*=)"
    r"|://hooks\.slack\.com/|://discord(?:app)?\.com/api/webhooks/|://[^/\s]*webhook\.office\.com/",
    re.IGNORECASE,
)
ENTRY = re.compile(
    r"""(?P<name>(?<![A-Za-z_.])-{0,2}[A-Za-z_][\w.\-]{0,200})(?P<sign>\\?["']?\s*[=:]\s*|\s+)(?P<value>\\"[^"]*\\"|"(?:[^"\\]|\\.)*"|'[^']*'"""
    r"""|(?:(?:Basic|Bearer)\s+)?(?:[^\s;&|,"'\\]|\\.)+)""",
    re.DOTALL,
)
# The name and the value of a variable in JSON or YAML, or of a property in XML.
PAIR = re.compile(
    r"""(?:\bname\\?["']?\s*[:=]\s*\\?["']?(?P<quoted>[\w.-]+)\\?["']?\s*[,\n]\s*\\?["']?value\\?["']?\s*[:=]\s*\\?["']?"""
    r"""|<name>\s*(?P<tag>[\w.-]+)\s*</name>\s*<value>\s*)(?P<value>[^\s"'\\<>{},]+)"""
)
# The remaining parts of a value that a shell joins from several quoted parts, as in TOKEN=a"b"'c'.
GLUED = re.compile(r"""(?:"[^"\s]*"|'[^'\s]*'|(?<=["'])[^\s;&|"'\\,:)}\]]+)+""")
# Matches the default in a script's ${NAME:-value}, which is used if the variable is not set.
DEFAULT = re.compile(r"\$\{(?P<name>\w+):?[-=+](?P<value>[^}]*)\}")
# A login that a program takes as one argument: curl -u NAME:PASSWORD, sshpass -p PASSWORD.
LOGIN_FLAG = re.compile(r"""(?:^|[\s"'(=])(?:-u|--user|--proxy-user)(?:\s+|=)["']?(?P<login>[^\s:"'$]+:[^\s"'$]+)""")
LOGIN_FLAGS = ("-u", "--user", "--proxy-user")
SSHPASS = re.compile(r"\bsshpass\s+-p\s*(?P<login>[^\s$]+)")
# A name, followed by the sign that separates it from its value.
NAME_BEFORE = re.compile(r"(?<![\w.-])(--[A-Za-z][\w-]+(?=[\s=])|[A-Za-z_]\w*(?==))[\s=]+[\"']?$")
# SINGLE has names of options that may be written with a single dash. PROSE finds a credential after a word such as
# `password` in a sentence.
SINGLE = {"password", "passwd", "pass", "token", "secret", "key", "apikey", "accesskey", "secretkey", "username"}
PROSE = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|token|secret|(?:api|access)[ _-]?key)\s+(?:is\s+|was\s+)?"
    r"(?P<secret>(?=[^\s\d]*\d)[^\s\"'$/\\;&|]{8,})"
)
VARIABLE_NAME = re.compile(r"[^A-Za-z0-9]+")
# The start, the end and the name of a credential in a text.
Span = tuple[int, int, str]


class Credentials(Struct):
    """The Secret that the user has to create: its name and its keys."""

    secret: str = "credentials"
    found: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Credentials({self.keys})"

    @property
    def keys(self) -> list[str]:
        return [*self.found]

    def key(self, name: str, value: str) -> str:
        """Record a credential, and return its key in the Secret. The key is also a valid name of a variable."""
        remember(value)
        # A name may contain the credential itself, as in -pPASSWORD. Then the key is made from the word `credential`,
        # and not from this name.
        is_glued = re.match(r"-[^-]", name) and name[1:].lower() not in SINGLE
        name = name if has_parts(name, OF_NAME) and not is_glued else "credential"
        plain = VARIABLE_NAME.sub("_", name.strip("-")).strip("_").upper() or "CREDENTIAL"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        names = (plain, *(f"{plain}_{number}" for number in range(2, len(self.found) + 3)))
        key = next(each for each in names if self.found.get(each, value) == value)
        self.found[key] = value
        return key

    def variable(self, name: str, key: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": key}}}

    def env(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return a variable of a container. If its value is a credential, the variable refers to the Secret instead."""
        name, value = str(entry.get("name", "")), entry.get("value")
        if value is None or not (is_credential(name, str(value)) or has_credential(str(value))):
            return entry
        return self.variable(name, self.key(name, str(value)))

    def words(self, words: Sequence[str], taken: Collection[str] = ()) -> tuple[list[str], list[dict[str, Any]]]:
        """Return a program's words with $(NAME) in place of each credential, and the variables that define each NAME.

        `taken` lists names that other variables already use.
        """
        found: list[str] = []
        variables: dict[str, dict[str, Any]] = {}
        words = [_without_comments(words, index) for index, _ in enumerate(words)]
        for word, places in zip(words, in_words(words), strict=True):
            for start, end, name in reversed(places):
                key = self.key(name, word[start:end])
                variable = f"{key}_ARGUMENT" if key in taken else key
                variables[variable] = self.variable(variable, key)
                word = f"{word[:start]}$({variable}){word[end:]}"
            found.append(word)
        for key, value in self.found.items():
            if is_distinct(value) and any(value in word for word in found):
                variable = f"{key}_ARGUMENT" if key in taken else key
                variables[variable] = self.variable(variable, key)
                found = [word.replace(value, f"$({variable})") for word in found]
        return found, [*variables.values()]

    def holds(self, found: str) -> bool:
        """Tell whether a text contains a credential: one of a known form, or one found elsewhere in the source."""
        return has_credential(found) or self.has_known(found)

    def has_known(self, found: str) -> bool:
        """Tell whether a text contains a credential that was found elsewhere in the source."""
        return any(is_distinct(value) and value in found for value in self.found.values())

    def container(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a sidecar or an init container without the credentials in its env, command and args."""
        env = [self.env(entry) if isinstance(entry, dict) else entry for entry in found.get("env") or []]
        parts = {key: found[key] for key in ("command", "args") if found.get(key)}
        words = [word for part in parts.values() for word in (part if isinstance(part, list) else [part])]
        if all(isinstance(word, str) for word in words):
            names = {str(each.get("name")) for each in env if isinstance(each, dict)}
            cleaned, variables = self.words(words, names)
            env = [*env, *variables]
            ends = len(parts.get("command", []))
            parts = {"command": cleaned[:ends], "args": cleaned[ends:]}
            parts = {key: part for key, part in parts.items() if part}
        return {**found, **parts, **({"env": env} if env else {})}


def is_credential(name: str, value: str) -> bool:
    """Tell whether a value is a credential, judged by its name and its form."""
    return bool(FORMS.search(value) or RANDOM_TEXT.search(value)) or any(_secret_urls(value)) or is_named(name, value)


def is_named(name: str, value: str) -> bool:
    """Tell whether a value is a credential, judged by its name.

    A harmless value such as `true`, and a reference such as `$TOKEN`, is no credential under any name.
    """
    is_number = bool(re.fullmatch(r"\d{4,}", value.strip())) and any(map(NUMERIC.search, _words(name)))
    if (HARMLESS.fullmatch(value.strip()) and not is_number) or REFERENCE.fullmatch(value.strip()):
        return False
    words = _words(name)
    if words and (tuple(words[-2:]) in PAIRS or words == ["username"]):
        return True
    if not words or words[-1] in OF_OBJECT:
        return False
    if any(map(CERTAIN.search, words)) or (words[-1] in LOGIN and len(words) > 1):
        return True
    if words[-1] in UNCERTAIN and RANDOM.fullmatch(value):
        return True
    places = [index for index, word in enumerate(words) if word in ("key", "keys") and index >= len(words) - 2]
    return any(bool(OF_KEY & set(words[:index])) or not _is_plain(value) for index in places)


def _words(name: str) -> list[str]:
    return [word.lower() for word in WORDS.findall(name)]


def _is_plain(value: str) -> bool:
    """Tell whether a value looks like a natural word. Random keys do not."""
    return bool(re.fullmatch(r"[a-z_.]{1,20}|[A-Za-z]{1,12}", value))


def is_distinct(value: str) -> bool:
    """Tell whether a credential is long and unusual enough not to occur in other texts by chance."""
    return len(value) >= SHORTEST and not _is_plain(value)


def has_credential(found: str) -> bool:
    """Tell whether a text contains a credential."""
    return any(_in_word(found, ""))


def in_words(words: Sequence[str]) -> list[list[Span]]:
    """Return start, end and name of the credentials in each word of a command."""
    found = [[*_in_word(word, words[index - 1] if index else "")] for index, word in enumerate(words)]
    for index, start, end in logins.in_words(words):
        found[index] = [*_merged([*found[index], (start, end, "login")])]
    return found


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans in order; spans that overlap are merged."""
    before: Span | None = None
    for span in sorted(spans, key=lambda each: (each[0], -each[1])):
        if before and span[0] < before[1]:
            before = (before[0], max(before[1], span[1]), before[2])
        else:
            yield from [before] if before else []
            before = span
    yield from [before] if before else []


def _without_comments(words: Sequence[str], index: int) -> str:
    """Return the word at this index of a command; if the word is a script, remove its comments.

    A credential in a comment could not be recognized, because a comment may contain any text.
    """
    is_flag = index > 1 and re.fullmatch(r"-\w*c", words[index - 1])
    is_script = is_flag and any(word.rpartition("/")[2] in shell.SHELLS for word in words[: index - 1])
    return shell.without_comments(words[index]) if is_script else words[index]


def hidden(found: str) -> str:
    """Return a text without its credentials, for a message."""
    for start, end, _ in reversed([*_in_word(found, "")]):
        found = found[:start] + HIDDEN + found[end:]
    return redact(found)


def _secret_urls(value: str) -> Iterator[re.Match[str]]:
    """Yield the URLs that have a password, a token or a signature. redact() also hides the queries of other URLs."""
    return (url for url in URL.finditer(value) if SECRET_URL.search(url[0]))


def _in_word(word: str, before: str) -> Iterator[Span]:
    """Yield start, end and name of each credential in a command's word. `before` is the previous word of the command.

    If the word is a script, the spans cover only the credentials, so that the rest of the script is kept.
    """
    if before.startswith("-") and "=" not in before and not word.startswith("-") and is_named(before, word):
        yield 0, len(word), before
    elif before in LOGIN_FLAGS and ":" in word and not VARIABLE.search(word):
        yield 0, len(word), "login"
    else:
        yield from _merged(_parts(word, before))


def _parts(word: str, before: str) -> Iterator[Span]:
    """Yield the position and the name of each part of a word that is a credential.

    A part is a credential if it has the form of one, or if a name such as PASSWORD stands before it. The parts may
    overlap.
    """
    for entry in (*LOGIN_FLAG.finditer(word), *SSHPASS.finditer(word)):
        yield *entry.span("login"), "login"
    for default in DEFAULT.finditer(word):
        if is_named(default["name"], default["value"]):
            yield *default.span("value"), default["name"]
    for entry in _entries(word):
        start, stop = _value(word, entry)
        is_set = word.endswith("setenv ", 0, entry.start())
        is_flag = (
            is_set
            or entry["name"].startswith("-")
            or (entry["sign"].strip() and not word.endswith("${", 0, entry.start()))
        )
        if is_flag and is_named(entry["name"], word[start:stop]):
            yield start, stop, entry["name"]
    for entry in PAIR.finditer(word):
        name = next(filter(None, (entry["quoted"], entry["tag"])))
        if is_named(name, entry["value"]):
            yield *entry.span("value"), name
    for form in (*FORMS.finditer(word), *RANDOM_TEXT.finditer(word)):
        yield *form.span(), _name_of(word, form.start(), before, "credential")
    for url in _secret_urls(word):
        yield *url.span(), _name_of(word, url.start(), before, "secret-url")
    yield from ((*found.span("secret"), "credential") for found in PROSE.finditer(word))
    yield from ((*span, "login") for span in logins.in_text(word))


def _value(word: str, entry: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a NAME=VALUE begins and ends, without its quotes.

    In a list such as user=a,password=b, a comma ends the value. If NAME=VALUE is a whole word, a comma is part of the
    value.
    """
    start, stop = entry.span("value")
    if entry["value"].startswith('\\"'):
        return start + 2, stop - 2
    more = GLUED.match(word, stop) if "=" in entry["sign"] else None
    if more and more.end() > stop:
        return start, more.end()
    if entry["value"][0] in "\"'":
        return start + 1, stop - 1
    begins = entry.start() == 0 or word[entry.start() - 1].isspace()
    if begins and ":" not in entry["sign"]:
        more = re.compile(r"(?:[^\s;&|\"'\\]|\\.)*" if re.search(r"\s", word) else r".*").match(word, stop)
        stop = more.end() if more else stop
    return start, stop


def _name_of(word: str, start: int, before: str, default: str) -> str:
    """Return the name of the option or variable whose value starts at this index of the word.

    A quote may stand between the name and the value.
    """
    found = NAME_BEFORE.search(word[:start])
    if found:
        return found[1]
    return before if start == 0 and before.startswith("--") else default


def _entries(word: str) -> Iterator[re.Match[str]]:
    """Yield each NAME=VALUE, NAME: VALUE and --NAME VALUE.

    Each value is searched for further pairs, too: in `--env TOKEN=x`, the value of --env is itself a pair.
    """
    place = 0
    while entry := ENTRY.search(word, place):
        yield entry
        place = entry.start("value")
