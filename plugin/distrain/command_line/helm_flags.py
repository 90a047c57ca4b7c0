"""List the flags of `helm install`, `helm upgrade` and `helm template` that distrain refuses, and what to use instead.

docs/plugin.md shows this table. Every other flag of these three commands has the same meaning for distrain as for Helm.
"""

from __future__ import annotations

COMMANDS = ("install", "upgrade", "template")
TITLE = "Helm's flags that are refused"
INTRODUCTION = """\
`install`, `upgrade` and `template` take the flags of Helm's commands of the same name, with the same meaning; but
`--wait` follows the training job. These flags are refused, except that `upgrade` has an `-o` of its own:"""
# Each value of --wait in Helm 4, and the boolean that means the same. The value says how Helm waits; with `hookOnly` it
# does not wait.
WAITS = {"watcher": "true", "legacy": "true", "hookOnly": "false"}
# What the user can do instead of a flag that changes how Helm renders or applies a chart.
HELM_ITSELF = "give Helm itself the values that `helm distrain derive` prints: `helm ... -f -`"
# For each group of refused flags: the reason, then what to use instead.
REFUSED = {
    (
        *("--repo", "--version", "--devel", "--verify", "--keyring", "--username", "--password", "--pass-credentials"),
        *("--ca-file", "--cert-file", "--key-file", "--insecure-skip-tls-verify", "--plain-http"),
        "--dependency-update",
    ): "the chart is distrain's own, a folder or a .tgz file; fetch another one with `helm pull`",
    (
        *("--debug", "--burst-limit", "--qps", "--color", "--colour"),
        *("--registry-config", "--repository-config", "--repository-cache", "--content-cache"),
    ): "it is a setting of Helm as a whole; set Helm's environment variable, as `helm env` lists it",
    (
        *("--post-renderer", "--post-renderer-args", "--enable-dns", "--skip-schema-validation"),
    ): f"the job that is installed would not be the job that was checked; {HELM_ITSELF}",
    (
        *("--force", "--force-conflicts", "--force-replace", "--server-side", "--take-ownership", "--replace"),
        *("--disable-openapi-validation", "--cleanup-on-fail", "--skip-crds", "--include-crds"),
    ): f"distrain decides how objects are changed and undone, and the chart has no CRDs; {HELM_ITSELF}",
    ("--wait-for-jobs",): "Helm would wait for the end of the training; use --wait, then `kubectl logs --follow`",
    (
        "--hide-notes",
        "--render-subchart-notes",
    ): "the notes are the command's only answer; send stdout to /dev/null",
    ("--hide-secret",): "the chart renders no Secret with content; leave the flag out",
    ("-o", "--output"): "the answer is the notes or a manifest; `helm status NAME -o json` prints the release",
    (
        *("--api-versions", "-a", "--kube-version", "--is-upgrade", "--validate"),
    ): f"the cluster tells its version and APIs, and --offline takes the newest; {HELM_ITSELF}",
    ("--output-dir", "--release-name"): "the manifest goes to stdout; direct it to a file",
    (
        *("--create-namespace", "--dry-run", "--wait", "--timeout", "--atomic", "--rollback-on-failure"),
        *("--description", "--labels", "-l"),
    ): "`template` installs nothing; use the flag with install or upgrade",
}


def refusal(command: str, flag: str) -> str | None:
    """Return why a command refuses a flag of Helm, and what to use instead. Return None for any other flag."""
    if command not in COMMANDS:
        return None
    return next((words for flags, words in REFUSED.items() if flag in flags), None)


def table() -> str:
    """Return the refused flags as a table in Markdown."""
    rows = [f"| {', '.join(f'`{flag}`' for flag in flags)} | {words} |" for flags, words in REFUSED.items()]
    return "\n".join(["| flag | why, and what to use instead |", "|---|---|", *rows])
