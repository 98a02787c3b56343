"""The command ``otel-loopguard calibrate``: a policy from good runs, and its proof on runs that were held out."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import sys
from signal import SIGINT
from subprocess import PIPE, Popen

import pytest

from otel_loopguard.cli.calibrate import survey
from otel_loopguard.cli.calibrate.proof import upper_bound
from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay import recorded_runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.engine.modes import DEFAULT_RULES
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.policy_files.load import load_file
from tests.cli.replay import made
from tests.cli.replay.test_span_buffer import exported


def plain(number):
    """A run without any repeat."""
    return made.run(f"plain {number}", [made.call("read_file", {"path": str(n)}, f"text {n}", n) for n in range(3)])


def repeats(number, tool="lookup_rate", times=5):
    """A good run that repeats one call ``times`` times with one long result."""
    calls = [made.call(tool, {"q": "a"}, "The rate has not been published for this period yet." * 3, n)
             for n in range(times)]  # fmt: skip
    return made.run(f"{tool} {number}", calls)


def inbox(number):
    """A good run that reads an inbox four times, until there is mail."""
    answers = ["There is nothing in the folder."] * 4 + ["A mail: the build is broken."]
    calls = [made.call("read_inbox", {"folder": "in"}, answer, n) for n, answer in enumerate(answers)]
    return made.run(f"inbox {number}", calls)


def repetitive(seed):
    """A run drawn from the seed that repeats a few calls again and again, with few results."""
    rng = random.Random(seed)
    tools, results = rng.sample(made.TOOLS[:8], rng.randint(1, 3)), rng.sample(made.RESULTS, rng.randint(1, 2))
    calls = [made.call(rng.choice(tools), {"q": rng.randrange(2)}, rng.choice(results), n) for n in range(30)]
    return made.run(f"repetitive {seed}", calls)


def stuck(name, **more):
    return made.stuck(name, times=30, **more)


@pytest.fixture
def calibrated(tmp_path, capfd):
    """Calibrate on runs; return the exit status, the policy's text, and the messages."""

    def calibrate(runs, *arguments):
        path = tmp_path / "runs.jsonl"
        path.write_text("".join(json.dumps(run) + "\n" for run in runs))
        status = main(["calibrate", str(path), *arguments])
        out, err = capfd.readouterr()
        (tmp_path / "policy.toml").write_text(out)
        return status, out, err

    return calibrate


def settings(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def without_reasons(text):
    return [line.partition("  # ")[0] for line in settings(text)]


def policy_of(tmp_path):
    loaded = load_file(str(tmp_path / "policy.toml"))
    assert loaded.problems == ()
    return loaded.policy


def refused(run, policy):
    trips, _ = recorded_runs.replay(recorded_runs.read(run), PolicyJudge(policy))
    return [trip for trip in trips if trip.action >= Action.REUSE]


def test_runs_that_the_defaults_do_not_refuse_need_no_setting(calibrated):
    """Nothing is loosened without need, and nothing is tightened."""
    status, text, _ = calibrated([plain(n) for n in range(40)])
    assert (status, settings(text)) == (0, [])
    assert "Good runs: 40, of which" in text


def test_a_limit_is_raised_to_the_busiest_good_run_and_no_further(calibrated, tmp_path):
    """The run with the most repeats is not refused any more; one more repeat is."""
    status, text, _ = calibrated([repeats(n, times=5) for n in range(20)] + [plain(n) for n in range(20)])
    policy = policy_of(tmp_path)
    assert status == 0
    assert settings(text)[0] == "[tools.lookup_rate.modes.generic_repeat]"
    assert refused(repeats(0, times=5), Policy())
    assert refused(repeats(0, times=5), policy) == []
    assert refused(repeats(0, times=6), policy)
    assert refused(made.stuck(times=3), policy), "another tool has the limit of the defaults"


def test_a_reading_tool_whose_answer_changes_by_itself_is_a_poll(calibrated, tmp_path):
    """The kind is declared with its reason, so that the answer is not withheld."""
    _, text, _ = calibrated([inbox(n) for n in range(10)] + [plain(n) for n in range(10)])
    assert re.search(r'\[tools\.read_inbox\]\nkind = "poll"  # \d+ runs: its answer changed by itself after', text)
    assert refused(inbox(0), Policy())
    assert refused(inbox(0), policy_of(tmp_path)) == []


def test_no_limit_is_below_the_defaults(calibrated, tmp_path):
    """Runs drawn at random lead to a policy whose limits are all at those of the defaults or above."""
    calibrated([repetitive(seed) for seed in range(60)], "--all-good")
    policy = policy_of(tmp_path)
    rules = [(mode, rule) for contract in policy.tools.values() for mode, rule in contract.modes.items()]
    raised = [
        (rule.settings[name], DEFAULT_RULES[mode].settings[name])
        for mode, rule in [*rules, *policy.modes.items()]
        for name in ("block", "block_if_acted", "block_if_transient", "block_after_reads", "block_if_acknowledged")
        if name in rule.settings
    ]
    assert raised
    assert all(new > old for new, old in raised)


def test_the_policy_loads_and_refuses_none_of_the_runs_that_it_is_fitted_to(calibrated, tmp_path):
    """With a target that allows no refusal, the runs on the fitted side pass the policy as it is written."""
    recorded = [repetitive(seed) for seed in range(60)]
    _, text, _ = calibrated(recorded, "--all-good")
    assert main(["policy", "check", str(tmp_path / "policy.toml")]) == 0
    after = int(re.search(r"fitted to +\d+ +\d+ +(\d+)", text)[1])
    policy = policy_of(tmp_path)
    fitted = [run for run in recorded if not survey._is_held_out(run["run_id"])]
    assert after == sum(bool(refused(run, policy)) for run in fitted) == 0


def test_the_proof_counts_the_runs_that_were_held_out(calibrated, tmp_path):
    """The table has the held out runs that the defaults refuse, and those that the policy refuses."""
    recorded = [repeats(n) for n in range(30)] + [plain(n) for n in range(30)]
    _, text, _ = calibrated(recorded)
    held = [run for run in recorded if survey._is_held_out(run["run_id"])]
    before, after = (sum(bool(refused(run, one)) for run in held) for one in (Policy(), policy_of(tmp_path)))
    assert (before > 0, after) == (True, 0)
    assert re.search(rf"held out +{len(held)} +{before} +{after} ", text)
    assert f"TOO FEW RUNS: {len(held)} runs can prove {upper_bound(0, len(held)):.2%} at best" in text
    assert "takes 2,995 held out without a refusal, about 5,990 in all" in text


def test_a_target_that_the_defaults_meet_loosens_nothing(calibrated):
    """Refusals are allowed up to the target: 10 % of the runs may be refused, so fewer change no limit."""
    recorded = [repeats(1)] + [plain(n) for n in range(200)]
    assert settings(calibrated(recorded, "--target-false-positives", "10%")[1]) == []
    assert settings(calibrated([repeats(n) for n in range(9)] + recorded, "--target-false-positives", "0.001")[1]) != []


def test_enough_runs_prove_the_target(calibrated):
    """Some 300 runs without a refusal prove that less than 3 % are refused; `--fail-on unproven` says so."""
    recorded = [plain(n) for n in range(300)]
    status, text, _ = calibrated(recorded, "--target-false-positives", "3%", "--fail-on", "unproven")
    assert (status, "PROVEN: the target is met." in text) == (0, True)
    status, text, _ = calibrated(recorded, "--fail-on", "unproven")
    assert (status, "TOO FEW RUNS" in text) == (1, True)


def test_a_run_that_looks_stuck_is_named_and_left_out(calibrated):
    """Good and bad runs may be mixed: a loop raises no limit; `--fail-on stuck` says that there is one."""
    recorded = [stuck(f"loop {n}") for n in range(4)] + [plain(n) for n in range(40)]
    status, text, _ = calibrated(recorded)
    assert (status, settings(text)) == (0, [])
    assert "Left out as stuck (the starting policy would have ended the run): 4\n" in text
    assert calibrated(recorded, "--fail-on", "stuck")[0] == 1


def test_the_terminal_names_the_place_of_each_loop(calibrated):
    """A run that looks stuck has its turn, call, tool and mode, and the remedy; never an argument or a result."""
    secret = made.run("loop", [made.call("read_file", {"path": "s3cret"}, "h1dden text", n) for n in range(30)])
    _, text, err = calibrated([secret] + [plain(n) for n in range(40)])
    place = "- loop: generic_repeat of read_file at turn 1, call 3; 28 calls refused\n"
    assert "1 run looks stuck:\n" + place in err
    assert f"# {place}" in text
    assert err.endswith('If it is good, label it ("success": true), or use --all-good.\n')
    assert not any(word in text + err for word in ("s3cret", "h1dden"))


def test_the_remedy_for_a_stuck_run_fits_the_recording(calibrated):
    """Spans have no place for a label, and under --all-good nothing is left to do."""
    spans, _ = exported(Policy(action="observe"), stuck("loop"))
    recorded = [plain(n) for n in range(40)] + [{"resourceSpans": spans}]
    _, _, err = calibrated(recorded)
    assert err.endswith("If it is good, use --all-good: spans have no place for a label.\n")
    _, _, err = calibrated(recorded, "--all-good")
    assert "look" in err
    assert "If it is good" not in err


def test_a_limit_for_one_run_alone_is_named_with_this_run(calibrated):
    """A loop that ended by itself does not look stuck. Where it raises a limit alone, the terminal names it."""
    recorded = [plain(n) for n in range(40)] + [repeats(n) for n in range(8)]
    assert calibrated(recorded)[2] == ""
    short = [made.stuck(f"loop {n}", times=5) for n in range(8)]
    fitted = next(run for run in short if not survey._is_held_out(run["run_id"]))
    _, text, err = calibrated([*recorded, fitted])
    name = fitted["run_id"].replace(" ", "_")
    assert f"- tools.read_file.modes.generic_repeat.block = 6: {name}\n" in err
    assert f"block = 6  # 1 run: the busiest has 5, refused at 3 ({name})" in settings(text)


def test_a_label_decides_over_looks(calibrated):
    """A stuck run that is labelled as successful counts, and is named; one that failed never counts."""
    recorded = [plain(n) for n in range(40)]
    good = [stuck(f"loop {n}", success=True) for n in range(4)]
    bad = [repeats(n) | {"success": False} for n in range(9)]
    _, text, _ = calibrated(recorded + good)
    assert "4 runs look stuck, 4 of them good by label or by --all-good:\n" in text
    assert settings(text) != []
    _, text, _ = calibrated(recorded + bad)
    assert "Left out as failed (by its label): 9\n" in text
    assert settings(text) == []


def test_runs_without_evidence_prove_nothing(calibrated):
    """Runs without calls, or without any result, are left out: else they would make any policy look proven."""
    blind = [made.run(f"blind {n}", [made.call("look", {"q": 1}, None, k) for k in range(6)]) for n in range(5)]
    empty = [made.run(f"empty {n}", []) for n in range(7)]
    _, text, _ = calibrated([plain(n) for n in range(10)] + blind + empty)
    assert "Good runs: 10," in text
    assert "Left out without results or arguments, so that no repeat can be judged: 5\n" in text
    assert "Left out without calls: 7\n" in text


def test_a_recording_of_a_collector_leads_to_the_policy_of_the_same_runs(calibrated, tmp_path, capfd):
    """Spans that were recorded in observe mode have fingerprints only, and raise the same limits."""
    recorded = [repeats(n) for n in range(12)]
    path = tmp_path / "traces.jsonl"
    with path.open("w") as file:
        for run in recorded:
            spans, _ = exported(Policy(action="observe"), run)
            file.write(json.dumps({"resourceSpans": spans}) + "\n")
    assert main(["calibrate", str(path), "--target-false-positives", "0.1%"]) == 0
    of_spans = capfd.readouterr().out
    assert "Good runs: 12," in of_spans
    assert without_reasons(of_spans) == without_reasons(calibrated(recorded)[1]) != []


def test_a_tool_is_shown_with_its_group(calibrated):
    """The comments tell which tools are taken for polls, writes and cursors, by their names."""
    tools = ("read_file", "write_file", "wait_for_reply", "scroll_down", "frobnicate")
    _, text, _ = calibrated([made.run("a", [made.call(tool, {}, "text", n) for n, tool in enumerate(tools)])])
    groups = dict(re.findall(r"^# - (.*): (\w+) \(1\)$", text.replace("\n#  ", ""), re.MULTILINE))
    assert {tool: group.split()[0] for group, tool in groups.items()} == {
        "read_file": "reads", "write_file": "writes,", "wait_for_reply": "polls", "scroll_down": "may",
        "frobnicate": "of",
    }  # fmt: skip


def test_without_a_good_run_nothing_is_written(calibrated, tmp_path, capfd):
    """No runs, or only bad ones: exit status 3, a reason, and no policy."""
    output = tmp_path / "out.toml"
    status, out, err = calibrated([stuck("loop")], "-o", str(output))
    assert (status, out, output.exists()) == (3, "", False)
    assert "there is no good run" in err
    assert "left out as stuck (the starting policy would have ended the run): 1" in err
    (tmp_path / "none.jsonl").write_text("")
    assert main(["calibrate", str(tmp_path / "none.jsonl")]) == 3


def test_broken_lines_are_reported_once(tmp_path, capfd):
    """The files are read several times, but each broken line is named once; the others are used."""
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps(repeats(n)) for n in range(20)]
    path.write_text("\n".join(["{broken", *lines]) + "\n")
    assert main(["calibrate", str(path)]) == 3
    out, err = capfd.readouterr()
    assert err.count("runs.jsonl:1: no JSON") == 1
    assert "Good runs: 20," in out


def test_standard_input_is_read_as_often_as_a_file(calibrated, capfd, monkeypatch):
    """A pipe, also a packed one, leads to the policy of the same file."""
    recorded = [repeats(n) for n in range(20)]
    expected = calibrated(recorded)[1]
    data = gzip.compress("".join(json.dumps(run) + "\n" for run in recorded).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    assert main(["calibrate", "-"]) == 0
    assert capfd.readouterr().out == expected


def test_a_name_cannot_add_a_setting(calibrated, tmp_path):
    """Ids of runs and names of tools are texts of others: they end no comment, and their globs match them alone."""
    line = "x\n[modes.generic_repeat]\nblock = 99"
    recorded = [repeats(n, tool="read.a:b/c") for n in range(20)] + [repeats(n, tool=line) for n in range(20)]
    _, text, _ = calibrated([*recorded, stuck(line)])
    assert "block = 99" not in settings(text)
    policy = policy_of(tmp_path)
    assert list(policy.tools) == ["read.a:b/c"]
    assert policy.modes == {}


def test_the_runs_are_never_overwritten(tmp_path, capfd):
    """An output that is one of the inputs is refused before any work, and so is one in a folder that is missing."""
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(plain(1)) + "\n")
    assert main(["calibrate", str(path), "-o", str(path)]) == 2
    assert main(["calibrate", str(path), "-o", str(tmp_path / "none" / "policy.toml")]) == 2
    assert "which the policy would overwrite" in capfd.readouterr().err
    assert json.loads(path.read_text())["run_id"] == "plain 1"


@pytest.mark.parametrize("share", ["0", "1", "200%", "much", "nan"])
def test_a_share_that_is_none_is_wrong_use(share, tmp_path, capfd):
    """The target is between 0 and 1."""
    (tmp_path / "runs.jsonl").write_text(json.dumps(plain(1)))
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", str(tmp_path / "runs.jsonl"), "--target-false-positives", share])
    assert ended.value.code == 2


def test_the_same_runs_lead_to_the_same_policy(calibrated):
    """The order of the runs makes no difference, and each is on the same side every time."""
    recorded = [repetitive(seed) for seed in range(30)]
    forth, back = (calibrated(one, "--all-good")[1].splitlines() for one in (recorded, recorded[::-1]))
    differ = [line for line, other in zip(forth, back, strict=True) if line != other]
    assert len(settings("\n".join(forth))) > 2
    assert {line[:3] for line in differ} == {"# -"}, "the first ten that look stuck are named"


BASE = """
action = "observe"
preset = "default"  # of the team
[tools]
"lookup_*" = { modes = { generic_repeat = { nudge = 3, block = 4 } } }
[tools.lookup_rate]
modes.generic_repeat.block = 4
[tools.read_file]
cap = 2
[sentences]
"generic_repeat.nudge" = "Again \\"{tool}\\"?"
"""


def test_a_given_policy_is_kept_and_loosened(calibrated, tmp_path):
    """Its settings are written with their lines, and only limits that refuse good runs have another value."""
    base = tmp_path / "base.toml"
    base.write_text(BASE)
    recorded = [repeats(n) for n in range(20)] + [inbox(n) for n in range(20)]
    _, text, _ = calibrated(recorded, "--policy", str(base))
    before, policy = load_file(str(base)).policy, policy_of(tmp_path)
    kept = [(one.action, one.sentences, one.tools["read_file"], one.tools["lookup_*"]) for one in (before, policy)]
    assert kept[0] == kept[1]
    assert policy.tools["lookup_rate"].modes["generic_repeat"].block == 6
    assert policy.tools["read_inbox"].kind == "poll"
    assert 'action = "observe"  # base.toml, line 2' in settings(text)
    assert any(line.startswith("block = 6  # 4 before; ") for line in settings(text))
    assert main(["policy", "check", str(tmp_path / "policy.toml")]) == 0


def test_a_declared_limit_is_kept(calibrated, tmp_path):
    """A budget is no guess that runs correct: it stays, and the comments name the runs that it refuses."""
    base = tmp_path / "base.toml"
    base.write_text("max_calls = 4\n[tools.read_file]\ncap = 2\nonce = true\n")
    pages = [[made.call("fetch_page", {"q": k}, f"text {k}", k) for k in range(n)] for n in range(5, 25)]
    recorded = [plain(n) for n in range(5)] + [made.run(f"long {n}", calls) for n, calls in enumerate(pages)]
    _, text, _ = calibrated(recorded, "--policy", str(base))
    assert load_file(str(base)).policy == policy_of(tmp_path)
    assert re.search(r"# - plain_\d: retry_limit of read_file at turn 1, call 3; 1 call refused\n", text)
    assert re.search(r"# - long_\d: global_circuit_breaker of fetch_page at turn 1, call 5; \d calls? refused\n", text)
    assert "# Not raised: declared limits (cap, once, max_calls, budget)" in text


def test_a_run_that_was_held_out_and_is_refused_is_named(calibrated):
    """No setting is for it, but whoever reads the figure needs to know whether it is a loop."""
    short = [made.stuck(f"loop {n}", times=5) for n in range(8)]
    held = next(run for run in short if survey._is_held_out(run["run_id"]))
    _, text, err = calibrated([plain(n) for n in range(40)] + [held])
    place = f"- {held['run_id'].replace(' ', '_')}: generic_repeat of read_file at turn 1, call 3; 3 calls refused\n"
    assert f"1 good run is still refused:\n{place}" in err
    assert f"# {place}" in text
    assert settings(text) == []


def test_a_policy_with_mistakes_is_wrong_use(tmp_path, capfd):
    """Every mistake is named before any run is read; the comments of the given policy are never overwritten."""
    path, base = tmp_path / "runs.jsonl", tmp_path / "base.toml"
    path.write_text(json.dumps(plain(1)) + "\n")
    base.write_text("abort_afer = 5\n")
    assert main(["calibrate", str(path), "--policy", str(base)]) == 2
    assert "did you mean abort_after?" in capfd.readouterr().err
    base.write_text("abort_after = 12\n")
    assert main(["calibrate", str(path), "--policy", str(base), "-o", str(base)]) == 2
    assert base.read_text() == "abort_after = 12\n"


def test_a_policy_file_is_replaced_as_a_whole(tmp_path):
    """A program that has the old file open reads all of it. The new one has its permissions."""
    path, output = tmp_path / "runs.jsonl", tmp_path / "policy.toml"
    path.write_text(json.dumps(plain(1)) + "\n")
    output.write_text("# the old one\n")
    output.chmod(0o640)
    with output.open() as old:
        assert main(["calibrate", str(path), "-o", str(output)]) == 0
        assert old.read() == "# the old one\n"
    assert "Good runs: 1," in output.read_text()
    assert output.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [output, path]


def test_ctrl_c_leaves_no_file(tmp_path):
    """Interrupted while it reads, it ends with the status of a shell, without a traceback, and writes nothing."""
    output = tmp_path / "policy.toml"
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "calibrate", "-", "-o", str(output)]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with Popen(command, stdin=PIPE, stderr=PIPE, env=environ) as process:
        process.stdin.write(b"\n" * (1 << 20))  # more than a pipe holds: it is being read
        process.send_signal(SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert list(tmp_path.iterdir()) == []
