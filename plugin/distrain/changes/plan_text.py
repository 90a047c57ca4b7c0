"""Write the plan of an upgrade in the form that --output names."""

from __future__ import annotations

from distrain import redact
from distrain.answers.formats import MARKDOWN, dumped
from distrain.check.report import Report
from distrain.release import plan_markdown
from distrain.release.plan import Before, Next, Plan, lines
from distrain.request.request import Request


def told(request: Request, planned: Plan, before: Before, after: Next, report: Report | None = None) -> str:
    """Return the plan as text, JSON, YAML or Markdown; `report` is None if nothing was judged."""
    form, has_trainer = request.options.output, not after.values.get("command")
    if form == MARKDOWN:
        gpu_resource = str((after.values.get("workers") or {}).get("gpuResource"))
        sizes = plan_markdown.sizes(before.job, after.job, gpu_resource)
        verdict = ": ".join(filter(None, [report.verdict, report.next])) if report else ""
        text = plan_markdown.lines(planned, before, sizes, verdict, has_trainer=has_trainer)
        return redact.redact("\n".join(text))
    if form != "text":
        return dumped({**planned.as_dict(), "verdict": report.verdict if report else None}, form)
    return "\n".join(lines(planned, before, has_trainer=has_trainer))
