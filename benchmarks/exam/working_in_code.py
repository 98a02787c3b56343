"""Agents that work, or wait for good reason: code, builds, clusters and databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam.trace import works

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


def edited(run: Run, path: str) -> None:
    """Edit a file, with other text each time."""
    run("fs.edit_file", "Applied 1 edit.", path=path, old=run.lines(1), new=run.lines(2))


@works()
def ci_log_each_minute(run: Run) -> None:
    """A build is watched each minute; its log grows, but for two minutes in which a container is pulled."""
    job, log = run.number(1000, 9999), [f"{run.clock()} Job started"]
    for minute in range(12):
        if minute not in (3, 4):
            log += [f"{run.clock()} {run.prose(6)}" for _ in range(3)]
        run("ci.get_run_log", "\n".join(log), pause=60, job_id=job)
    run("ci.get_run", {"id": job, "status": "completed", "conclusion": "success"}, run_id=job)


@works()
def pods_until_running(run: Run) -> None:
    """A roll-out: the states move from Pending to Running, the ages in each answer, and some looks change nothing."""
    pod, namespace = f"{run.word()}-{run.hex(9)}-{run.hex(5)}", run.word()
    states = ["0/2 Pending"] * 2 + ["0/2 ContainerCreating"] * 4 + ["1/2 Running"] * 3 + ["2/2 Running"]
    for look, state in enumerate(states):
        pause = run.rng.uniform(6, 12)
        age = f"{8 * look + 3}s"
        run("ops.list_pods", f"NAME READY STATUS RESTARTS AGE\n{pod} {state} 0 {age}", pause=pause, namespace=namespace)


@works()
def rollout_replicas(run: Run) -> None:
    """One replica after the other is replaced; each takes some looks of ten seconds."""
    app = run.word()
    for done in range(6):
        for _ in range(run.number(1, 3)):
            text = f"Waiting for deployment {app!r} rollout to finish: {done} out of 6 new replicas have been updated"
            run("ci.get_status", text, pause=10, deployment=app)
    run("ci.get_status", f"deployment {app!r} successfully rolled out", pause=10, deployment=app)


@works()
def warnings_watched_after_a_change(run: Run) -> None:
    """Some files are read and changed at the pace of the model; then warnings are looked for, until one comes."""
    for _ in range(8):
        run("fs.read_file", run.prose(40), pause=run.rng.uniform(2, 5), path=f"src/{run.word()}_{run.hex(2)}.py")
    run("sh.bash", f"deployed {run.word()} as revision {run.number(10, 99)}", pause=4, command="make deploy")
    for _ in range(14):
        run("ops.get_logs", [], pause=run.rng.uniform(14, 22), service="web", level="warning")
    run("ops.get_logs", [f"{run.word()} is slow"], pause=18, service="web", level="warning")


@works()
def infrastructure_is_created(run: Run) -> None:
    """A database is created for six minutes; each look of 20 s names the seconds that have passed."""
    stack = run.name()
    run("ops.apply", f"Apply started for {stack}", stack=stack)
    for look in range(1, 19):
        text = f"aws_db_instance.main: Still creating... [{look * 20 // 60}m{look * 20 % 60:02d}s elapsed]"
        run("ci.get_status", text, pause=20, stack=stack)
    run("ci.get_status", "Apply complete! Resources: 4 added, 0 changed, 0 destroyed.", pause=20, stack=stack)


@works()
def sleep_before_each_look(run: Run) -> None:
    """The command itself sleeps 45 s before it looks at a run that is in progress."""
    job = run.number(10**5, 10**6)
    command = f"sleep 45 && gh run view {job} --json status"
    for _ in range(9):
        run("sh.bash", '{"status":"in_progress"}', ran=45.6, command=command)
    run("sh.bash", '{"status":"completed"}', ran=45.6, command=command)


@works()
def package_lock_with_sleep(run: Run) -> None:
    """Another process has the lock of the package manager; the agent sleeps and tries again."""
    command = f"apt-get install -y {run.word()}"
    for _ in range(7):
        text = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1187 (unattended-upgr)"
        run.fails("sh.bash", text, command=command)
        run("sh.bash", "", ran=20, command="sleep 20")
    run("sh.bash", "Setting up ... done", command=command)


@works()
def state_lock_retried(run: Run) -> None:
    """A colleague has the lock of the infrastructure's state; the same plan each 40 s until it is free."""
    holder, person = run.uuid(), run.word()
    for _ in range(6):
        text = f"Error: Error acquiring the state lock\nLock Info:\n  ID: {holder}\n  Who: {person}@laptop"
        run.fails("ops.apply", text, pause=40, directory="infra")
    run("ops.apply", "Apply complete! Resources: 1 added.", pause=40, directory="infra")


@works()
def types_edited_until_clean(run: Run) -> None:
    """The type checker reports the same three errors after each of five edits, then one, then none."""
    path = run.file("ts")
    errors = "\n".join(f"{path}({line},7): error TS2345: Argument is not assignable." for line in (14, 31, 77))
    for _ in range(5):
        edited(run, path)
        run.fails("sh.bash", errors, command="npx tsc --noEmit")
    edited(run, path)
    run.fails("sh.bash", errors.splitlines()[0], command="npx tsc --noEmit")
    edited(run, path)
    run("sh.bash", "", command="npx tsc --noEmit")


@works()
def tests_first(run: Run) -> None:
    """A new test file is written and fails with the same line of the missing function; the code follows, five times."""
    for _ in range(5):
        path = run.file()
        run("fs.write_file", "File written.", path=f"tests/{path}", content=run.lines(9))
        run.fails("sh.run_tests", "1 failed: ImportError: cannot import name", suite="unit")
        run("fs.write_file", "File written.", path=path, content=run.lines(9))
        run("sh.run_tests", "all passed", suite="unit")


@works()
def flaky_end_to_end(run: Run) -> None:
    """Each of four fixes is followed by two runs of a flaky suite; other tests fail each time."""
    for _ in range(4):
        edited(run, run.file("tsx"))
        for _ in range(2):
            failed = run.words(run.number(1, 3))
            run.fails(
                "sh.run_tests", f"{len(failed)} failed: {', '.join(failed)}\n{40 - len(failed)} passed", suite="e2e"
            )
    run("sh.run_tests", "40 passed", suite="e2e")


@works(undecidable="the user asked for eight runs of one test, to see how often it fails")
def stress_of_one_test(run: Run) -> None:
    """Eight runs of one test on request; only the durations differ."""
    for _ in range(8):
        run("sh.bash", f"1 passed in {run.rng.uniform(1, 3):.2f}s", command="pytest -q tests/test_retry.py")


@works()
def bisect(run: Run) -> None:
    """A bisection: the same two commands, the same two outcomes, another commit each time."""
    for left in range(7, 0, -1):
        run(
            "sh.bash",
            f"Bisecting: {2**left} revisions left to test\n[{run.hex(40)}] {run.prose(5)}",
            command="git bisect next",
        )
        bad = run.choice(True, False)
        (run.fails if bad else run)("sh.run_tests", "1 failed" if bad else "12 passed", suite="core")
        verdict = "bad" if bad else "good"
        run("sh.bash", f"[{run.hex(40)}] {run.prose(4)}", command=f"git bisect {verdict}")


@works()
def audit_of_many_files(run: Run) -> None:
    """Three hundred files are read once; the guideline is read again after each fifty."""
    guideline, text = run.file("md"), run.prose(90)
    for number in range(300):
        if number % 50 == 0:
            run("fs.read_file", text, path=guideline)
        run("fs.read_file", run.lines(3), path=f"{run.file()}.{number}")


@works()
def reread_after_compaction(run: Run) -> None:
    """The context was compacted; five of the twelve files read before are read again, then work goes on."""
    files = [(run.file(), run.lines()) for _ in range(12)]
    for path, text in files:
        run("fs.read_file", text, path=path)
    edited(run, files[0][0])
    for path, text in files[1:6]:
        run("fs.read_file", text, path=path)
    for path, _ in files[1:6]:
        edited(run, path)


@works(undecidable="the calls do not show that the model's context was compacted; the messages would")
def reread_everything_after_compaction(run: Run) -> None:
    """The context was compacted; all of the twelve files are read again."""
    files = [(run.file(), run.lines()) for _ in range(12)]
    for path, text in files * 2:
        run("fs.read_file", text, path=path)
    edited(run, files[0][0])


@works()
def greps_until_found(run: Run) -> None:
    """Six spellings find nothing, the seventh does; twice."""
    for _ in range(2):
        for pattern in run.words(6):
            run("fs.grep", "No matches found", pattern=pattern)
        run("fs.grep", f"{run.file()}:12: {run.lines(1)}", pattern=run.name())


@works()
def slow_model(run: Run) -> None:
    """A model that thinks 12 to 40 s a step reads, edits and tests, and looks at the unchanged status in between."""
    path, failure = run.file(), "2 failed, 31 passed"
    for _ in range(7):
        run("fs.read_file", run.lines(20), pause=run.rng.uniform(12, 40), path=path)
        run(
            "fs.edit_file",
            "Applied 1 edit.",
            pause=run.rng.uniform(12, 40),
            path=path,
            old=run.lines(1),
            new=run.lines(1),
        )
        run.fails("sh.run_tests", failure, pause=run.rng.uniform(12, 40), suite="unit")
        run("sh.bash", f" M {path}", pause=run.rng.uniform(12, 40), command="git status --short")


@works()
def todo_list_kept(run: Run) -> None:
    """The plan is read before each task and written after it, acknowledged in the same words each time."""
    tasks = [run.prose(4) for _ in range(8)]
    for done in range(8):
        plan = "\n".join(f"[{'x' if number < done else ' '}] {task}" for number, task in enumerate(tasks))
        run("mind.read_todos", plan)
        edited(run, run.file())
        todos = [{"task": task, "done": number <= done} for number, task in enumerate(tasks)]
        run("mind.write_todos", "Todo list updated.", todos=todos)


@works()
def thoughts_between_reads(run: Run) -> None:
    """A thinking tool answers the same to every thought; there is a read after one to three of them."""
    for _ in range(9):
        for _ in range(run.number(1, 3)):
            run("mind.think", "Your thought has been logged.", thought=run.prose(25))
        run("fs.read_file", run.lines(6), path=run.file())


@works()
def migrations_one_by_one(run: Run) -> None:
    """Thirty migrations, each applied by its number and answered with OK."""
    for number in range(30):
        run("db.migrate", "OK", pause=3, version=f"{number:04d}")


@works()
def backfill_with_counts(run: Run) -> None:
    """One batch after the other by the same call; the answer counts the rest down."""
    left = run.number(22, 30) * 500
    for batch in range(left // 500):
        run("db.run_batch", f"Updated 500 rows, {left - 500 * (batch + 1)} remaining", job="backfill-email")


@works(undecidable="a write whose repetition is the work, answered in the same words")
def backfill_without_counts(run: Run) -> None:
    """One batch of 500 rows after the other by the same statement, until fewer than 500 are left."""
    statement = "UPDATE users SET plan = 'free' WHERE id IN (SELECT id FROM users WHERE plan IS NULL LIMIT 500)"
    for _ in range(9):
        run("db.query", "UPDATE 500", sql=statement)
    run("db.query", "UPDATE 137", sql=statement)


@works()
def tables_of_a_warehouse(run: Run) -> None:
    """Forty tables are described; many have the same three columns."""
    usual = [
        {"name": "id", "type": "bigint"},
        {"name": "created_at", "type": "timestamptz"},
        {"name": "payload", "type": "jsonb"},
    ]
    run("db.list_tables", [f"events_2026_{number:02d}" for number in range(40)])
    for number in range(40):
        extra = [] if run.rng.random() < 0.7 else [{"name": run.word(), "type": "text"}]
        run("db.describe_table", usual + extra, table=f"events_2026_{number:02d}")


@works()
def policies_checked(run: Run) -> None:
    """Thirty resources are checked against a policy; nearly all have the same long verdict."""
    passed = {
        "compliant": True,
        "violations": [],
        "rules_evaluated": ["encryption", "tags", "public-access", "backup", "tls"],
    }
    for number in range(30):
        failing = run.rng.random() < 0.1
        verdict = {**passed, "compliant": False, "violations": [run.word()]} if failing else passed
        run("ops.check_policy", verdict, resource=f"arn:aws:s3:::{run.name()}-{number}")


@works()
def hourly_health(run: Run) -> None:
    """A long-running agent looks at a service once an hour for a day and more."""
    for _ in range(30):
        run("ops.check_health", {"status": "ok", "checks": {"db": "ok", "cache": "ok"}}, pause=3600, service="billing")


@works()
def two_regions_watched(run: Run) -> None:
    """Two regions in turn, each five minutes, during a release; nothing happens."""
    for _ in range(16):
        for region in ("eu-west-1", "us-east-2"):
            run("ops.check_health", {"region": region, "errors_per_minute": 0}, pause=150, region=region)


@works(undecidable="the answer does not tell that it waits, and the pace is that of a model that thinks")
def quiet_log_tailed(run: Run) -> None:
    """The log of a service is tailed each 20 s for an event that the user expects; it is the same for 14 looks."""
    lines = "\n".join(f"2026-05-11T08:{minute:02d}:00Z {run.prose(5)}" for minute in range(6))
    for _ in range(14):
        run("ops.get_logs", lines, pause=20, service="webhook", tail=6)
    run("ops.get_logs", f"{lines}\n{run.clock()} received order", pause=20, service="webhook", tail=6)


@works()
def backoff_with_jitter(run: Run) -> None:
    """Two endpoints answer 429 and 503 in turn; the pauses double each time, then both succeed."""
    for _ in range(2):
        url = run.url()
        for attempt in range(5):
            status = run.choice("429 Too Many Requests", "503 Service Unavailable")
            run.fails("net.fetch", status, pause=2**attempt * run.rng.uniform(1.5, 2.5), url=url)
        run("net.fetch", run.prose(40), pause=60, url=url)


@works()
def compile_each_crate(run: Run) -> None:
    """Twenty-five packages are built one by one, with the same warning of a dependency in each log."""
    warning = (
        "warning: the following packages contain code that will be rejected by a future version of Rust: nom v5.1.2\n"
    )
    note = "note: to see what the problems were, use the option `--future-incompat-report`"
    for number in range(25):
        run("sh.bash", warning + note, command=f"cargo build -p {run.word()}-{number}")


@works()
def notebook_explored(run: Run) -> None:
    """The cell is rewritten and run again ten times; plots come back as the same short text."""
    for _ in range(10):
        run("office.set_cell", "Cell 4 saved.", cell=4, source=run.lines(4))
        run("sh.run_cell", "<Figure size 640x480 with 1 Axes>", cell=4)


@works()
def release_awaited(run: Run) -> None:
    """After edits and a push the version that the service reports is watched each 12 to 25 s for ten minutes."""
    for _ in range(4):
        path = run.file()
        run("fs.read_file", run.lines(10), pause=run.rng.uniform(2, 5), path=path)
        edited(run, path)
    run("sh.bash", f"To github.example:acme/shop.git\n   {run.hex(7)}..{run.hex(7)}  main -> main", command="git push")
    for _ in range(32):
        run("ops.get_service", {"name": "shop", "version": "1.4.2"}, pause=run.rng.uniform(12, 25), service="shop")
    run("ops.get_service", {"name": "shop", "version": "1.4.3"}, pause=15, service="shop")


@works()
def name_server_watched(run: Run) -> None:
    """A record is changed at the registrar, and the name looked up each 15 to 25 s until the new address is there."""
    for record in ("A", "AAAA", "MX"):
        run("net.fetch", run.prose(15), pause=run.rng.uniform(2, 4), url=f"https://dns.example/zones/shop/{record}")
    run("db.query", [[1]], pause=3, sql="SELECT count(*) FROM zones WHERE name = 'shop'")
    run("office.set_cell", "Updated 1 cell", pause=4, cell="B7", value="203.0.113.9")
    for _ in range(28):
        run("sh.bash", "198.51.100.4", pause=run.rng.uniform(15, 25), command="dig +short shop.example")
    run("sh.bash", "203.0.113.9", pause=20, command="dig +short shop.example")
