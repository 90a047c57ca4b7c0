"""Format a report as Markdown, for a comment in a pull request."""

from __future__ import annotations

from distrain import redact
from distrain.check.report import Report
from distrain.check.text import found_and_step
from distrain.markdown import code, text
from distrain.workload.manifest import Job


def check_markdown(name: str, report: Report, job: Job, title: str = "") -> str:
    """Return the verdict for the release with this name, the reasons, and the next step."""
    found, *step = found_and_step(report, job)
    titled = f"{title}, {report.verdict}" if title else str(report.verdict)
    lines = [f"### {code(name)}: {titled}", "", f"- **Verdict:** {report.verdict}: {text(found)}"]
    lines += [f"- **Next:** {text(words)}" for words in step]
    if report.reasons:
        lines.append("- **Why the nodes take no further pod:**")
        lines += [f"  - {each.nodes or ''}{' x ' if each.nodes else ''}{code(each.reason)}" for each in report.reasons]
    lines += [f"- **GPUs:** {report.gpus.needed} needed, {report.gpus.free} of {report.gpus.total} free"]
    lines += [f"- **Warning:** {text(str(warning))}" for warning in report.warnings]
    lines += [f"- **Not judged:** {text(words)}" for words in report.unseen]
    lines += [f"- **Assumed:** {text(words)}" for words in report.assumed]
    return redact.redact("\n".join(lines))
