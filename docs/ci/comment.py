#!/usr/bin/env python3
"""Post the comment of plan_changes.py on the pull request, or update the comment posted for an earlier commit.

    comment.py FILE

On GitHub a workflow sets GITHUB_API_URL and GITHUB_REPOSITORY. The job must also set PULL_REQUEST to the pull request's
number, and GITHUB_TOKEN. The token needs only the permission `pull-requests: write`. On GitLab a merge request's job
sets CI_API_V4_URL, CI_PROJECT_ID and CI_MERGE_REQUEST_IID. COMMENT_TOKEN is a project access token with the role
Reporter and the scope `api`. The script needs only Python 3.10.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Each comment of plan_changes.py begins with this line.
MARKER = "<!-- distrain-plan -->"
# GitHub shows this author for comments that a workflow posts with its GITHUB_TOKEN.
GITHUB_AUTHOR = "github-actions[bot]"
PAGE = 100
SECONDS = 30


class CommentError(Exception):
    """The comment cannot be posted on the pull request."""


@dataclass(frozen=True)
class Service:
    """The API of a code host: URLs, HTTP method and login for comments.

    In the URL `one_comment`, {} is the placeholder for a comment's id.
    """

    comments: str
    one_comment: str
    method: str
    header: tuple[str, str]
    user: str = ""

    def is_own(self, comment: dict[str, Any], user: Any) -> bool:
        """Tell whether this script wrote the comment.

        Anyone can write a comment with this script's marker, so check the author, too. The API gives null as the author
        if the account was deleted.
        """
        place, key = ("author", "id") if self.user else ("user", "login")
        author = (comment.get(place) or {}).get(key)
        return bool(author == user and str(comment.get("body", "")).startswith(MARKER))


def main() -> int:
    if len(sys.argv) != 2:
        print("comment.py: FILE: name the file that plan_changes.py has written", file=sys.stderr)
        return 2
    try:
        body = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
        print(put(service(), body))
    except (CommentError, OSError) as error:
        print(f"comment.py: {error}", file=sys.stderr)
        return 1
    return 0


def service() -> Service:
    if "GITHUB_REPOSITORY" in os.environ:
        api = f"{_set('GITHUB_API_URL')}/repos/{_set('GITHUB_REPOSITORY')}/issues"
        login = ("Authorization", f"Bearer {_set('GITHUB_TOKEN')}")
        return Service(f"{api}/{_set('PULL_REQUEST')}/comments", f"{api}/comments/{{}}", "PATCH", login)
    api = f"{_set('CI_API_V4_URL')}/projects/{_set('CI_PROJECT_ID')}"
    notes = f"{api}/merge_requests/{_set('CI_MERGE_REQUEST_IID')}/notes"
    login = ("PRIVATE-TOKEN", _set("COMMENT_TOKEN"))
    return Service(notes, f"{notes}/{{}}", "PUT", login, user=f"{_set('CI_API_V4_URL')}/user")


def put(where: Service, body: str) -> str:
    """Create the comment, or update the existing comment. Return what was done."""
    user = _ask(where, "GET", where.user)["id"] if where.user else GITHUB_AUTHOR
    found = _own(where, user)
    if found is None:
        _ask(where, "POST", where.comments, {"body": body})
        return "comment created"
    if found["body"].strip() == body.strip():
        return "comment is up to date"
    _ask(where, where.method, where.one_comment.format(found["id"]), {"body": body})
    return "comment changed"


def _own(where: Service, user: Any) -> dict[str, Any] | None:
    page = 1
    while comments := _ask(where, "GET", f"{where.comments}?per_page={PAGE}&page={page}"):
        for comment in comments:
            if where.is_own(comment, user):
                return dict(comment)
        page += 1
    return None


def _ask(where: Service, method: str, url: str, body: dict[str, str] | None = None) -> Any:
    headers = dict([where.header, ("Content-Type", "application/json"), ("Accept", "application/json")])
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        words = f"{method} {url}: {error.code} {error.reason}; does the token have the permission to comment?"
        raise CommentError(words) from error
    except (urllib.error.URLError, ValueError) as error:
        raise CommentError(f"{method} {url}: {error}") from error


def _set(name: str) -> str:
    if not os.environ.get(name):
        raise CommentError(f"{name}: is not set; the first lines of comment.py list what a job has to set")
    return os.environ[name]


if __name__ == "__main__":
    sys.exit(main())
