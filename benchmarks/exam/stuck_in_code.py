"""Agents that are stuck: code, builds, clusters and databases.

``told`` and ``refused`` are calls counted from 1, as a careful human who reads along would set them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.exam.trace import stuck

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


@stuck(told=4, refused=9)
def config_and_thought(run: Run) -> None:
    """The same file is read after each thought, and no thought leads to anything."""
    path, text = run.file("yaml"), run.lines(15)
    for _ in range(20):
        run("fs.read_file", text, path=path)
        run("mind.think", "Thought recorded.", thought=run.prose(15))


@stuck(told=4, refused=8)
def request_ids_and_shuffled_keys(run: Run) -> None:
    """One request; only its id, its duration and the order of the keys differ."""
    record = {"name": run.name(), "owner": run.word(), "replicas": run.number(1, 9)}
    for _ in range(30):
        answer = {**record, "request_id": run.uuid(), "took_ms": run.number(3, 300), "served_at": run.clock()}
        keys = list(answer)
        run.rng.shuffle(keys)
        run("ops.get_service", {key: answer[key] for key in keys}, service="checkout")


@stuck(told=5, refused=9)
def two_files_in_turn(run: Run) -> None:
    """Two files are read in turn."""
    files = [(run.file(), run.lines()) for _ in range(2)]
    for number in range(36):
        path, text = files[number % 2]
        run("fs.read_file", text, path=path)


@stuck(told=8, refused=14)
def list_describe_count(run: Run) -> None:
    """Three questions to a database in turn, with the same three answers."""
    tables = [run.word() for _ in range(5)]
    columns = [{"name": run.word(), "type": "text"} for _ in range(6)]
    rows = run.number(0, 900)
    for _ in range(14):
        run("db.list_tables", tables)
        run("db.describe_table", columns, table=tables[0])
        run("db.query", [[rows]], sql=f"SELECT count(*) FROM {tables[0]}")


@stuck(told=10, refused=18)
def four_commands_in_turn(run: Run) -> None:
    """Four commands that only look, in turn, with the same outputs."""
    outputs = {
        "git status": "nothing to commit",
        "git log -1": run.prose(8),
        "ls": run.prose(5),
        "cat Makefile": run.lines(8),
    }
    for _ in range(12):
        for command, output in outputs.items():
            run("sh.bash", output, command=command)


@stuck(told=15, refused=26)
def cycle_of_six(run: Run) -> None:
    """Six reads of different kinds in turn, with the same answers."""
    path, table = run.file(), run.word()
    lap: list[tuple[str, Any, dict[str, Any]]] = [
        ("fs.read_file", run.lines(), {"path": path}),
        ("fs.grep", f"{path}:3: {run.lines(1)}", {"pattern": run.word()}),
        ("fs.list_directory", [run.file() for _ in range(4)], {"path": "."}),
        ("db.describe_table", [{"name": "id"}, {"name": run.word()}], {"table": table}),
        ("find.search", [{"title": run.prose(5), "url": run.url()}], {"query": run.prose(4)}),
        ("fs.read_file", run.lines(), {"path": run.file("md")}),
    ]
    for _ in range(8):
        for role, result, args in lap:
            run(role, result, **args)


@stuck(told=8, refused=None)
def token_expired_everywhere(run: Run) -> None:
    """Every call of a server fails with the same words, whatever is asked of it; the agent asks on."""
    for number in range(30):
        text = "401 Unauthorized: the access token is expired. Sign in again."
        run.fails("crm.get_customer", text, user_id=f"{run.word()}-{number}")


@stuck(told=9, refused=18)
def failing_test_and_new_reads(run: Run) -> None:
    """The same test fails the same way; between are other files each time, and nothing is changed."""
    failure = f"FAILED test_{run.word()} - KeyError: {run.word()!r}\n1 failed, 11 passed"
    for _ in range(18):
        run.fails("sh.run_tests", failure, suite="unit")
        run("fs.read_file", run.lines(8), path=run.file())


@stuck(told=22, refused=32)
def files_read_three_times(run: Run) -> None:
    """Sixteen files are read one after the other, again and again."""
    files = [(run.file(), run.lines()) for _ in range(16)]
    for _ in range(4):
        for path, text in files:
            run("fs.read_file", text, path=path)


@stuck(told=26, refused=40)
def ranges_of_one_file(run: Run) -> None:
    """One file by ranges of 100 lines up to its end, and from the start again."""
    ranges = [(start, run.lines(10)) for start in range(1, 2001, 100)]
    for _ in range(4):
        for start, text in ranges:
            run("fs.read_file", text, path="core/engine.py", offset=start, limit=100)


@stuck(told=32, refused=49)
def context_thrash(run: Run) -> None:
    """Twenty-four files are more than the context holds; the agent starts over each time."""
    files = [(run.file(), run.lines(30)) for _ in range(24)]
    run("mind.write_todos", "Todo list updated.", todos=["refactor"])
    for _ in range(4):
        for path, text in files:
            run("fs.read_file", text, path=path)


@stuck(told=12, refused=None)
def empty_greps(run: Run) -> None:
    """Made-up names are searched for; nothing is ever found."""
    for number in range(35):
        run("fs.grep", "No matches found", pattern=f"{run.word()}_{run.word()}{number}")


@stuck(told=7, refused=14)
def patch_and_reread(run: Run) -> None:
    """The same patch is rejected with the same words; the file is read in between, as if it had changed."""
    path, text, patch = run.file(), run.lines(), run.lines(4)
    for _ in range(15):
        run.fails("fs.apply_patch", "error: patch failed: hunk #2 does not apply", patch=patch)
        run("fs.read_file", text, path=path)


@stuck(told=8, refused=16)
def same_content_written_and_read(run: Run) -> None:
    """The same text is written into the same file, read, and written again."""
    path, text = run.file("md"), run.prose(40)
    for _ in range(16):
        run("fs.write_file", f"Wrote {len(text)} characters.", path=path, content=text)
        run("fs.read_file", text, path=path)


@stuck(told=14, refused=26)
def import_moved_to_and_fro(run: Run) -> None:
    """One edit and its reverse in turn."""
    path, (one, other) = run.file(), (run.lines(2), run.lines(2))
    for _ in range(18):
        run("fs.edit_file", "Applied 1 edit.", path=path, old=one, new=other)
        run("fs.edit_file", "Applied 1 edit.", path=path, old=other, new=one)


@stuck(told=5, refused=12)
def cd_and_ls(run: Run) -> None:
    """A directory is entered and listed, again and again."""
    listed = "\n".join(run.words(6))
    for _ in range(16):
        run("sh.bash", "", command="cd /workspace/app")
        run("sh.bash", listed, command="ls -la")


@stuck(told=9, refused=17)
def containers_up_and_logs(run: Run) -> None:
    """The containers are started and their logs read; the traceback is the same each time."""
    missing = f"ModuleNotFoundError: No module named {run.word()!r}"
    trace = f'Traceback (most recent call last):\n  File "/app/main.py", line 12\n{missing}'
    for _ in range(14):
        run("sh.bash", " Container app-1  Started", command="docker compose up -d")
        run("sh.bash", f"app-1  | {trace}", command="docker compose logs --tail 20 app")


@stuck(told=9, refused=18)
def manifest_applied_again(run: Run) -> None:
    """A manifest is applied, unchanged, and the pod goes on crashing; only its ages and counts move."""
    pod = f"{run.word()}-{run.hex(9)}"
    for lap in range(16):
        run("ops.apply", "deployment.apps/web unchanged", manifest="web.yaml")
        run(
            "ops.list_pods",
            f"{pod} 0/1 CrashLoopBackOff {3 + lap // 4} ({lap % 4 * 9 + 2}s ago) {lap}m",
            namespace="web",
        )


@stuck(told=4, refused=10)
def commit_of_nothing(run: Run) -> None:
    """A commit fails, as there is nothing to commit; the message is another each time."""
    for _ in range(30):
        run.fails(
            "sh.bash",
            "On branch main\nnothing to commit, working tree clean",
            command=f"git commit -am {run.prose(4)!r}",
        )


@stuck(told=6, refused=None)
def install_with_other_flags(run: Run) -> None:
    """A package that does not exist is installed with ever other flags."""
    package = run.name()
    for number in range(30):
        flags = " ".join(
            run.rng.sample(["--user", "--pre", "--no-cache-dir", "-U", "--force-reinstall", "-q", "-v"], 3)
        )
        text = f"ERROR: No matching distribution found for {package}"
        run.fails("sh.bash", text, command=f"pip install {flags} {package}{'==' + str(number) if number > 12 else ''}")


@stuck(told=12, refused=24)
def queued_fast(run: Run) -> None:
    """A build is queued for ever; the agent looks each two to four seconds."""
    build = run.number(100, 999)
    for look in range(60):
        answer = {"build": build, "status": "queued", "queued_for": f"{3 * look}s"}
        run("ci.get_run", answer, pause=run.rng.uniform(2, 4), build=build)


@stuck(told=24, refused=45)
def queued_slow(run: Run) -> None:
    """A build is queued for ever; the agent looks each thirty seconds, for more than half an hour."""
    build = run.number(100, 999)
    for _ in range(70):
        run("ci.get_run", {"build": build, "status": "queued"}, pause=30, build=build)


@stuck(told=4, refused=12)
def slow_model_12(run: Run) -> None:
    """A model that takes 12 s a step reads the same file again and again."""
    path, text = run.file(), run.lines(30)
    run("fs.list_directory", [path], pause=12, path=".")
    for _ in range(30):
        run("fs.read_file", text, pause=run.rng.uniform(11, 13), path=path)


@stuck(told=8, refused=19)
def slow_model_25(run: Run) -> None:
    """A model that takes 25 s a step has worked, and then queries the same empty table again and again."""
    for _ in range(5):
        run("fs.read_file", run.lines(), pause=run.rng.uniform(22, 28), path=run.file())
    for _ in range(32):
        run(
            "db.query",
            {"rows": [], "columns": ["id", "email"]},
            pause=run.rng.uniform(22, 28),
            sql="SELECT id, email FROM leads",
        )


@stuck(told=3, refused=None, undecidable="a model that takes 45 s a step, and one that waits 45 s, make the same calls")
def slow_model_45(run: Run) -> None:
    """A model that takes 45 s a step reads the same file again and again."""
    path, text = run.file(), run.lines(30)
    for _ in range(30):
        run("fs.read_file", text, pause=run.rng.uniform(40, 50), path=path)


@stuck(told=8, refused=16)
def slow_model_two_commands(run: Run) -> None:
    """A model that takes 12 s a step runs two failing commands in turn."""
    for _ in range(18):
        run.fails("sh.bash", "make: *** No rule to make target 'all'.  Stop.", pause=12, command="make all")
        run.fails("sh.bash", "cmake: command not found", pause=12, command="cmake .")


@stuck(told=5, refused=9)
def blanks_varied(run: Run) -> None:
    """One search; only the blanks of the pattern and the stated reason differ."""
    pattern, found = run.prose(3), f"{run.file()}:{run.number(1, 99)}: {run.lines(1)}"
    for number in range(30):
        run("fs.grep", found, pattern=pattern + " " * (number % 5), explanation=run.prose(9))


@stuck(told=5, refused=9)
def made_up_tools(run: Run) -> None:
    """Tools that do not exist are called, with a read that fails in between."""
    for number in range(30):
        tool = f"{run.choice('run', 'edit', 'open', 'commit')}_{run.word()}_{run.word()}"
        run.made_up.add(tool)
        run.fails(tool, f"Unknown tool: {tool}", target=run.word())
        if number % 4 == 3:
            run.fails("fs.read_file", "ENOENT: no such file or directory", path=f"{run.name()}.py")


@stuck(told=3, refused=7)
def arguments_never_parse(run: Run) -> None:
    """The arguments are the same broken call each time; the framework refuses to parse them."""
    args = {"command": run.lines(3)}
    for _ in range(30):
        run.fails(
            "sh.bash", "InputValidationError: bash failed: the required parameter `description` is missing", **args
        )


@stuck(told=5, refused=12)
def migration_locked(run: Run) -> None:
    """A migration fails with the same error; pid and time in it differ."""
    for _ in range(30):
        text = f"[{run.clock()}] ERROR: canceling statement due to lock timeout (pid {run.number(1000, 60000)})"
        run.fails("db.migrate", text, version="0042")


@stuck(told=7, refused=14)
def two_dead_endpoints(run: Run) -> None:
    """Two dead services are asked in turn each few seconds."""
    for _ in range(16):
        for service in ("auth", "billing"):
            run.fails("ops.check_health", {"service": service, "error": "connection refused"}, service=service)


@stuck(told=9, refused=18)
def formatter_and_check(run: Run) -> None:
    """The formatter reports success, the check fails with the same lines, and so on."""
    path = run.file()
    for _ in range(14):
        run("sh.bash", "1 file left unchanged", command=f"ruff format {path}")
        run.fails(
            "sh.bash", f"{path}:31:5: F821 Undefined name `{path[:4]}`\nFound 1 error.", command=f"ruff check {path}"
        )
