"""Examine the default policy: python -m benchmarks.exam [SEEDS] [--naming N] [-v] [--why FAMILY NAMING SEED]."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial

from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS
from benchmarks.exam.trace import PACE, trace
from otel_loopguard import Outcome, ToolCall


def line(title: str, found: list[play.Row]) -> str:
    """The figures of these rows in a line."""
    known, open_ = play.figures(found), play.figures(found, undecidable=True)
    return (
        f"{title:9} stuck: stopped {known.stopped}/{known.stuck}, missed {known.missed}, "
        f"in time {known.in_time}/{known.needed}, told in time {known.told} | "
        f"works: refused {known.refused}/{known.legit}, ended {known.ended}, nudged {known.nudged}, "
        f"withheld {known.withheld} of {known.refusals}, nudges before news {known.before_news} of {known.nudges}, "
        f"lost {known.lost} | "
        f"undecidable: stopped {open_.stopped}/{open_.stuck}, refused {open_.refused}/{open_.legit}"
    )


def why(family: str, naming: str, seed: int) -> None:
    """Print one trace, call by call, with the decisions."""
    drawn, judge = trace(family, naming, seed), play.GuardJudge(tells=family in families.ANEW)
    print(f"{drawn.family.view}\nerrors are {'flagged' if drawn.flagged else 'texts'}")
    for message in play.messages(drawn.calls):
        if judge.thinks(message[0][1].thought, message[0][1].begin):
            print("the model has to answer")
            return
        for number, call in message:
            made = ToolCall(call.tool, call.args, known_tools=drawn.tools)
            judge.now = call.begin
            decision = judge.turn.begin(made)
            note = ""
            if decision.runs:
                judge.now = call.begin + call.ran
                decision = judge.turn.end(made, Outcome(call.result, is_error=call.is_error))
                record = decision.record
                note = f"{record.kind} {record.sameness}{' news' if record.news else ''}"
            if decision.action and decision.trip:
                note += f" >> {decision.action} {decision.trip.mode}: {decision.message}"
            shown = f"{json.dumps(call.args)[:50]} | {str(call.result)[:40]!r}"
            print(f"{number:3} {call.begin - 1000:8.1f} {call.tool} {shown} | {note}")
            if str(decision.action) == "abort":
                return


def main() -> int:
    """Print the figures by naming, or one trace."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exam", description="Examine the default policy.")
    parser.add_argument("seeds", nargs="?", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--shared", action="store_true", help="play the examination in ../shared/exam instead")
    parser.add_argument("--naming", choices=NAMINGS, action="append")
    parser.add_argument("-v", action="store_true", help="name the families that went wrong")
    parser.add_argument("--why", nargs=3, metavar=("FAMILY", "NAMING", "SEED"), help="show one trace, call by call")
    parser.add_argument("--anew", action="store_true", help="play the kinds drawn anew; of those kept, only totals")
    parser.add_argument("--pace", nargs=2, type=float, default=PACE, help="anew: the seconds of a thought")
    parser.add_argument("--heeds", type=float, default=0.0, help="the share of sentences that the model heeds")
    parser.add_argument("--untold", action="store_true", help="anew: do not tell the guard how long the model thinks")
    options = parser.parse_args()
    if options.why:
        if options.why[0] in families.KEPT:
            parser.error("this kind is kept from the tuning")
        why(options.why[0], options.why[1], int(options.why[2]))
        return 0
    namings = options.naming or NAMINGS
    seeds = range(options.first, options.first + options.seeds)
    if options.shared:
        drawn = shared.draw(namings, seeds)
    elif options.anew:
        drawn = families.draw(namings, seeds, families.ANEW, options.pace)
    else:
        drawn = families.draw(namings, seeds)
    judge = partial(play.GuardJudge, tells=options.anew and not options.untold)
    found = play.rows(drawn, judge, options.heeds)
    seen, kept = families.parted(found)
    for naming in namings:
        print(line(naming, [row for row in seen if row.naming == naming]))
    if options.anew:
        print(line("kept", kept))
    if options.v:
        for family, complaints in play.faults(seen).items():
            print(f"{family:50} {dict(complaints.most_common(4))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
