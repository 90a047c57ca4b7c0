"""Test docs/ci/comment.py against fake servers with the API of GitHub and of GitLab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.paths import REPOSITORY

SCRIPT = REPOSITORY / "docs" / "ci" / "comment.py"
BODY = "<!-- distrain-plan -->\n## What this change does\n\nIt changes no run.\n"
GITHUB, GITLAB = "github", "gitlab"
BOT = {"user": {"login": "github-actions[bot]"}, "author": {"id": 7}}
JANE = {"user": {"login": "jane"}, "author": {"id": 8}}
TOKEN = "secret-token"


@dataclass
class Host:
    """A fake GitHub or GitLab with one pull request.

    The fake server answers every request with the same HTTP status.
    """

    kind: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    url: str = ""
    writes: list[tuple[str, str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, str]:
        if self.kind == GITHUB:
            mine = {"GITHUB_API_URL": self.url, "GITHUB_REPOSITORY": "team/runs"}
            return {**mine, "PULL_REQUEST": "5", "GITHUB_TOKEN": TOKEN}
        mine = {"CI_API_V4_URL": self.url, "CI_PROJECT_ID": "9", "CI_MERGE_REQUEST_IID": "5"}
        return {**mine, "COMMENT_TOKEN": TOKEN}

    @property
    def path(self) -> str:
        return "/repos/team/runs/issues/5/comments" if self.kind == GITHUB else "/projects/9/merge_requests/5/notes"

    def path_of(self, number: int) -> str:
        return f"/repos/team/runs/issues/comments/{number}" if self.kind == GITHUB else f"{self.path}/{number}"

    def answer(self, method: str, url: str, body: Any) -> Any:
        parts = urlsplit(url)
        if method != "GET":
            self.writes.append((method, parts.path, body))
            return {}
        if parts.path == "/user":
            return {"id": 7}
        query = parse_qs(parts.query)
        start = (int(query["page"][0]) - 1) * int(query["per_page"][0])
        assert parts.path == self.path
        return self.comments[start : start + int(query["per_page"][0])]


@pytest.fixture(params=[GITHUB, GITLAB])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    found = Host(request.param)

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            found.tokens |= {self.headers.get("Authorization", ""), self.headers.get("PRIVATE-TOKEN", "")}
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = json.dumps(found.answer(self.command, self.path, json.loads(sent or b"null"))).encode()
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def _comment(host: Host, tmp_path: Path, **more: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "plan.md"
    file.write_text(BODY)
    environment = {"PATH": os.environ["PATH"], **host.environment, **more}
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(file)], env=environment, capture_output=True, text=True, check=False
    )


def test_first_comment_is_created(host: Host, tmp_path: Path) -> None:
    done = _comment(host, tmp_path)

    assert (done.returncode, done.stdout) == (0, "comment created\n"), done.stderr
    assert host.writes == [("POST", host.path, {"body": BODY})]
    assert host.tokens - {""} == {f"Bearer {TOKEN}" if host.kind == GITHUB else TOKEN}


def test_comment_of_an_earlier_commit_is_changed_wherever_it_stands(host: Host, tmp_path: Path) -> None:
    others = [{"id": number, "body": "fine", **JANE} for number in range(150)]
    host.comments = [*others, {"id": 200, "body": "<!-- distrain-plan -->\nold", **BOT}]

    done = _comment(host, tmp_path)

    assert (done.returncode, done.stdout) == (0, "comment changed\n"), done.stderr
    assert host.writes == [("PATCH" if host.kind == GITHUB else "PUT", host.path_of(200), {"body": BODY})]


def test_comment_that_says_the_same_stays(host: Host, tmp_path: Path) -> None:
    host.comments = [{"id": 1, "body": BODY.strip(), **BOT}]

    assert (_comment(host, tmp_path).stdout, host.writes) == ("comment is up to date\n", [])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"body": "<!-- distrain-plan -->\nnot the bot's", **JANE}, id="marker-of-another-user"),
        pytest.param({"body": "a comment of another job", **BOT}, id="no-marker"),
        pytest.param({"body": None, "user": None, "author": None}, id="deleted-account"),
    ],
)
def test_comment_of_others_is_never_changed(host: Host, tmp_path: Path, other: dict[str, Any]) -> None:
    host.comments = [{"id": 1, **other}]

    assert _comment(host, tmp_path).stdout == "comment created\n"


def test_refused_token_is_named_without_its_text(host: Host, tmp_path: Path) -> None:
    host.status = 403

    done = _comment(host, tmp_path)

    assert done.returncode == 1
    assert "403 Forbidden; does the token have the permission to comment?" in done.stderr
    assert TOKEN not in done.stderr
    assert host.writes == []


def test_missing_setting_is_named(host: Host, tmp_path: Path) -> None:
    name = "PULL_REQUEST" if host.kind == GITHUB else "COMMENT_TOKEN"

    done = _comment(host, tmp_path, **{name: ""})

    assert (done.returncode, done.stderr.startswith(f"comment.py: {name}: is not set; ")) == (1, True)
