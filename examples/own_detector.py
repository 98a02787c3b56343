"""A detector of one's own: one tool is called very often in one turn, whatever it returns.

A policy file names it: `detectors = ["own_detector:ROW"]`. docs/add-a-detector.md explains each line.
"""

from otel_loopguard import Action, Detector, History, Record, Rule, Trip


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the 25th call of one tool in a turn, and again at the 50th, the 100th and so on."""
    count = history.calls_of(record)
    if not rule.nudge or count < rule.nudge:
        return None
    return Trip("marathon", record.tool, count, rule.nudge, Action.NUDGE)


ROW = Detector(
    "marathon",
    rule=Rule(nudge=25),
    after=after,
    once_per="tool",
    nudge="This is call {count} of {tool} in this turn. Is there a way that takes fewer calls?",
    advice="none",
)
