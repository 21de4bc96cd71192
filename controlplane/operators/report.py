"""The report of a campaign, as text and as a JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controlplane.operators.campaign import Result
    from controlplane.operators.oracles import Alarm

__all__ = ["as_text", "as_tree", "permission_of"]


def as_text(result: Result, command: str = "") -> str:
    """Return the report: one paragraph a finding, then what was tried.

    `command` is the command that tries a plan again, up to the folder of the plan.
    """
    campaign = result.campaign
    lines: list[str] = []
    for alarm in result.calm_alarms:
        lines += [f"without any fault: {alarm}", ""]
    for number, finding in enumerate(campaign.findings, 1):
        lines.append(f"finding {number}: {finding.candidate.about}; repeats {finding.rate}")
        lines += [f"  {alarm}" for alarm in finding.alarms]
        lines += [f"  plan: {line}" for line in finding.candidate.lines]
        allowed = permission_of(finding.candidate.lines)
        if allowed:
            lines.append(f"  allowed: {allowed}")
        if finding.also:
            lines.append(
                f"  shown by {len(finding.also)} further plan{'s' * (len(finding.also) > 1)}"
            )
        if command:
            lines.append(f"  again: {command}finding-{number}.plan")
        lines.append("")
    lines += [f"drift, {each}" for each in result.verdicts]
    if result.verdicts:
        lines.append("")
    tried = sum(campaign.forms.values())
    forms = ", ".join(f"{form} {count}" for form, count in campaign.forms.items())
    rate = f"{60 * campaign.runs / result.wall_s:.0f} runs a minute" if result.wall_s else ""
    lines.append(
        f"{result.operator.name}: {len(campaign.findings)} findings; plans tried: {tried} ({forms or 'none'}),"
        f" {campaign.not_reached} not reached, {len(campaign.dropped)} alarms did not repeat"
        f"{'; all plans' if result.exhausted else ''}{'; ' + rate if rate else ''}"
    )
    notes = dict.fromkeys(note for record in result.calm for note in record.notes)
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines) + "\n"


def permission_of(lines: tuple[str, ...]) -> str:
    """Return which guarantee of Kubernetes allows what a plan does to what a client sees; "" where that is plain."""
    for line in lines:
        word = line.partition(" ")[0]
        if word == "freeze":
            return (
                "lists with resourceVersion=0 and watches come from a cache that may be behind; another API server"
                " may be further behind than the one before"
            )
        if word == "swallow":
            return "a watch that broke begins with a new list: states in between are not told"
        if word in ("hold", "delay"):
            return "nothing says how long a request takes, or when an event is told"
    return ""


def as_tree(result: Result) -> dict[str, Any]:
    """Return the report as a JSON value."""
    campaign = result.campaign
    return {
        "operator": result.operator.name,
        "calm": {
            "runs": len(result.calm),
            "alarms": [_alarm(each) for each in result.calm_alarms],
            "seconds": round(result.calm[0].wall_s, 3),
        },
        "findings": [
            {
                "about": each.candidate.about,
                "form": each.candidate.form,
                "plan": list(each.candidate.lines),
                "repeats": each.repeats,
                "of": each.of,
                "alarms": [_alarm(alarm) for alarm in each.alarms],
                "also": each.also,
                "allowed": permission_of(each.candidate.lines),
            }
            for each in campaign.findings
        ],
        "drifts": [
            {
                "kind": each.drift.kind,
                "changes": [str(change) for change in each.drift.changes],
                "verdict": each.verdict,
                "alarms": [_alarm(alarm) for alarm in each.alarms],
                "seconds": round(each.seconds, 3),
            }
            for each in result.verdicts
        ],
        "tried": dict(campaign.forms),
        "not_reached": campaign.not_reached,
        "did_not_repeat": len(campaign.dropped),
        "exhausted": result.exhausted,
        "seconds": round(result.wall_s, 3),
        "runs": campaign.runs,
    }


def _alarm(alarm: Alarm) -> dict[str, str]:
    return {"kind": alarm.kind, "subject": alarm.subject, "text": alarm.text}
