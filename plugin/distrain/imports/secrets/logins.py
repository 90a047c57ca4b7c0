"""Find credentials in commands that log in: a positional argument, or the value of a short option.

No name in the command shows that these arguments are secret (`mysql -pPASSWORD`, `wandb login KEY`). So this module
lists the programs that people use in job scripts, each with its secret arguments. The list was not compared with each
program's help. If a command uses a program that is not in the list, and the import keeps the command, the values file
shows the secret. If the command is left out, messages do not show its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct


class Login(Struct, frozen=True):
    """A command that logs in: the words after the program's name, and the options whose values are secret.

    `first` is the number of positional arguments before the first secret one; None if no positional argument is secret.
    If `named` is true, the argument before the secret one must be the name of a credential.
    """

    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    first: int | None = None
    named: bool = False


def _login(words: str = "", options: str = "", first: int | None = None, *, named: bool = False) -> Login:
    return Login(tuple(words.split()), tuple(options.split()), first, named)


BOTH = "-u -p"
REGISTRY = (_login("login", "-u -p --username --password"),)
SQL = (_login(options=BOTH),)
CLOUD = (_login(options="-i -k -t"),)
HUB = (_login("login", first=0),)
LOGINS: dict[str, tuple[Login, ...]] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "buildah", "skopeo", "crane", "oras", "regctl", "helm"), REGISTRY),
    **dict.fromkeys(("oc", "az", "apptainer", "singularity", "cloudctl", "ibmcloud"), REGISTRY),
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "twine"), SQL),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore", "mongoimport", "ncftpput", "ncftpget"), SQL),
    **dict.fromkeys(("ossutil", "ossutil64", "obsutil", "qsctl"), CLOUD),
    **dict.fromkeys(("wandb", "huggingface-cli", "hf", "vault", "comet", "kaggle", "modelscope", "dvc"), HUB),
    **dict.fromkeys(("mc", "mcli"), (_login("alias set", first=2), _login("config host add", first=2))),
    **dict.fromkeys(("coscli", "coscmd"), (_login("config", "-a -s -i -k"),)),
    **dict.fromkeys(("zip", "unzip"), (_login(options="-P"),)),
    **dict.fromkeys(("7z", "7za"), (_login(options="-p"),)),
    **dict.fromkeys(("aws", "git", "pip", "pip3", "conda", "npm"), (_login("set", first=1, named=True),)),
    "curl": (_login(options="-u -U -E --user --proxy-user --oauth2-bearer --cert"),),
    "wget": (_login(options="--user --http-user --ftp-user --proxy-user"),),
    "redis-cli": (_login(options="-a -u"), _login("auth", first=0), _login("AUTH", first=0)),
    "lftp": (_login(options="-u"),),
    "sshpass": (_login(options="-p"),),
    "smbclient": (_login(options="-U"),),
    "ldapsearch": (_login(options="-w"),),
    "ssh-keygen": (_login(options="-N -P"),),
    "openssl": (_login(options="-k -K -pass -passin -passout"),),
    "rclone": (_login("config create", first=2), _login("config update", first=1), _login("obscure", first=0)),
    "poetry": (_login("config", first=1, named=True),),
    "htpasswd": (_login(first=1),),
    "kubectl": (_login("create secret", "--from-literal"), _login("config set-credentials", "--password --token")),
}
LOGINS |= {
    "dvc": (*HUB, _login("remote modify", first=2, named=True)),
    "git": (_login("config", first=1, named=True),),
    "mc": (*LOGINS["mc"], _login("alias s", first=2)),
}
NAMED = re.compile(
    r"(?i)[\w.:/-]*(?:secret|passw(?:or)?d|token|_?auth|api_?key|access_?key|account_?key|(?:access|secret)_?key_?id"
    r"|credentials?|connection_string|extraheader|http-basic[\w.-]*)"
)
PROGRAM = re.compile(rf"(?<![\w.$/-])(?:[^\s\"'`;&|()]{{0,200}}/)?({'|'.join(map(re.escape, LOGINS))})(?=\s)")
# A word of a command in a script, with or without quotes. Even in quotes, a word must not contain a space: otherwise
# the end of a quoted script would count as a word.
WORD = re.compile(
    r"""(?:[ \t]|\\\n)+(?:"(?P<double>(?:[^"\\]|\\.)*)"(?=[\s;&|)`]|\Z)|'(?P<single>[^']*)'(?=[\s;&|)`]|\Z)"""
    r"""|(?P<plain>(?:[^\s;&|"'`()<>]|"[^"\s]*"|'[^'\s]*')+))"""
)
# At most this number of words is searched, from the start of a command.
MOST = 60
QUOTES = re.compile(r"[\"'\\]*")
# Finds `echo` or `printf` if the script pipes its output into a program that logs in, or writes its output into a file
# of credentials.
PIPED = re.compile(
    r"""\b(?:echo|printf)((?:\s+(?:"[^"\n]*"|'[^'\n]*'|[^\s;&|"'<>]+))+)\s*"""
    r"(?=\|[^|\n;]*(?:\blogin\b|-stdin\b|--with-token|passw|\bkinit\b|\bgpg\b|\bsudo\s+-S)"
    r"|(?:\|\s*(?:sudo\s+)?tee(?:\s+-a)?|>{1,2})\s*[^\s;&|]*(?:token(?!iz)|secret|passw|credential|netrc|pgpass|\.pem|\.key|\.cnf|s3cfg)\w*)",
    re.IGNORECASE,
)
# Finds the secret words in what PIPED has found. Options, and format strings of printf, are not secret.
ARGUMENT = re.compile(r"""(?<=[\s"'])(?!-)[^\s"'$%][^\s"']*""")
HERE = re.compile(
    r"(?:\blogin\b|-stdin\b|token|passw|secret|key|\bkinit\b|\bsudo\s+-S)[^\n;|]*<<<\s*(?P<secret>\"[^\"]+\"|'[^']+'|[^\s;&|\"'$]+)",
    re.IGNORECASE,
)
# If one of these words is on the line, the here-document that follows contains a credential.
TELLING = re.compile(
    r"token(?!iz)|secret|passw|credential|netrc|pgpass|\.pem|\.key|\.cnf|s3cfg|\blogin\b|\bftp\b", re.IGNORECASE
)
DOCUMENT = re.compile(
    r"^(?P<line>[^\n]*(?<!<)<<-?[ ]*[\"']?(?P<end>\w+)[\"']?[^\n]*)\n(?P<secret>.*?)\n\s*(?P=end)\b",
    re.MULTILINE | re.DOTALL,
)
# A call of a login function in Python or another language.
CALL = re.compile(
    r"(?:login|auth\w*|set_(?:token|key|password))\(\s*\\?[\"'](?P<secret>[^\"'\\]{6,})\\?[\"']", re.IGNORECASE
)
# The replacement in a sed command, if the replaced text is the name of a credential.
SED = re.compile(
    r"\bs(?P<sign>[/|#,@])(?:(?!(?P=sign))[^\n]){0,80}?(?:token|secret|passw|key)(?:(?!(?P=sign))[^\n]){0,80}(?P=sign)"
    r"(?P<secret>(?:(?!(?P=sign))[^\n$])+)(?P=sign)",
    re.IGNORECASE,
)
NETRC = re.compile(r"\b(?:login|password|account)\s+(?P<secret>[^\s\"'$\\]+)", re.IGNORECASE)
URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s@]*")


def in_words(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield index, start and end of each credential in the words of a command."""
    for place, word in enumerate(words):
        for login in LOGINS.get(PurePosixPath(word).name, ()):
            for index, start, end in _of(login, words[place + 1 :]):
                yield place + 1 + index, start, end


def in_text(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each credential in the commands of a text, such as a script."""
    for program in PROGRAM.finditer(text):
        found = [*_words(text, program.end())]
        for login in LOGINS[program[1]]:
            for index, start, end in _of(login, [text[first:last] for first, last in found]):
                begin, stop = _within_quotes(text, found[index][0] + start, found[index][0] + end)
                yield from [(begin, stop)] if begin < stop and text[begin] != "$" else []
    for piped in PIPED.finditer(text):
        yield from (found.span() for found in ARGUMENT.finditer(text, *piped.span(1)))
    yield from (found.span("secret") for each in (HERE, CALL, SED) for found in each.finditer(text))
    yield from (found.span("secret") for found in DOCUMENT.finditer(text) if TELLING.search(found["line"]))
    if re.search(r"\bmachine\s", text):
        yield from (found.span("secret") for found in NETRC.finditer(text))


def _words(text: str, place: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each remaining word of a command, from this index on, without quotes."""
    for _ in range(MOST):
        word = WORD.match(text, place)
        if not word:
            break
        yield word.span(str(word.lastgroup))
        place = word.end()


def _within_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    inner = QUOTES.sub("", text[start:end], count=1) if end > start else ""
    return end - len(inner), end - len(inner) + len(inner.rstrip("\"'\\"))


def _of(login: Login, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    begin = 0
    for word in login.words:
        if word not in words[begin:]:
            return
        begin = words.index(word, begin) + 1
    yield from (each for option in login.options for each in _values(option, words, begin))
    if login.first is not None:
        places = [index for index in range(begin, len(words)) if not words[index].startswith("-")]
        names = places[login.first - 1 : login.first] if login.named else []
        if not login.named or any(NAMED.fullmatch(words[index]) for index in names):
            yield from ((index, 0, len(words[index])) for index in places[login.first :] if _is_secret(words[index]))


def _values(option: str, words: Sequence[str], begin: int) -> Iterator[tuple[int, int, int]]:
    """Yield the values of an option: the next word, the text after =, or the rest of a short option's word."""
    for index, word in enumerate(words[begin:], begin):
        following = index + 1 if index + 1 < len(words) and _is_secret(words[index + 1]) else None
        is_short, sign = not option.startswith("--"), len(option) + (word[len(option) : len(option) + 1] == "=")
        if word == option or (is_short and re.fullmatch(rf"-[A-Za-z]*{option[1]}", word)):
            yield from [(following, 0, len(words[following]))] if following is not None else []
        if word.startswith(option) and len(word) > sign and (is_short or sign > len(option)):
            yield from [(index, sign, len(word))] if _is_secret(word[sign:]) else []


def _is_secret(word: str) -> bool:
    """Tell whether an argument may be secret. A variable is not secret, and neither is an address without a login."""
    return bool(word) and not word.startswith(("$", "…")) and not URL.fullmatch(word)
