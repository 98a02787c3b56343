"""The ten stuck and nine legitimate canonical traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine.judges.traces import Maker, Step, legitimate, stuck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.vocabulary import Outcome, ToolCall

READ = ("read_file", "get_file", "view_document", "fetch_page", "show_file")
EDIT = ("edit_file", "write_file", "apply_patch", "replace_in_file", "update_document")
TEST = ("run_tests", "execute_tests", "run_command", "shell_exec", "bash_run")
SEARCH = ("search_files", "find_text", "grep_code", "query_index", "search_documents")


@stuck(canonical=True)
def exact_repeat(m: Maker) -> Iterator[Step]:
    """One read, over and over."""
    tool, path, text = m.tool(*READ), m.several(1)[0], m.prose()
    for _ in range(60):
        yield Step(m.call(tool, path=path), m.text(text))


@stuck(canonical=True)
def volatile_result(m: Maker) -> Iterator[Step]:
    """One read whose answer carries a fresh time, id and duration."""
    tool, path, title = m.tool(*READ), m.several(1)[0], m.prose(5)
    for _ in range(60):
        yield Step(
            m.call(tool, path=path),
            m.fields(request_id=m.uuid(), at=m.stamp(), title=title, etag=m.hash(), elapsed=m.rng.randint(3, 900)),
        )


def laps(m: Maker, period: int, count: int) -> Iterator[Step]:
    """Reads in a fixed order, again and again."""
    tools = [m.tool(*READ), m.tool(*SEARCH), m.tool("list_directory", "list_items", "get_listing")]
    names, texts = m.several(period), [m.prose() for _ in range(period)]
    for _ in range(count):
        for place in range(period):
            yield Step(m.call(tools[place % 3], target=names[place]), m.text(texts[place]))


@stuck(canonical=True)
def cycle_of_two(m: Maker) -> Iterator[Step]:
    """A, B, A, B."""
    yield from laps(m, 2, 30)


@stuck(canonical=True)
def cycle_of_three(m: Maker) -> Iterator[Step]:
    """A, B, C, A, B, C."""
    yield from laps(m, 3, 30)


@stuck(canonical=True)
def cycle_of_four(m: Maker) -> Iterator[Step]:
    """A, B, C, D, A, B, C, D."""
    yield from laps(m, 4, 30)


@stuck(canonical=True)
def cycle_of_six(m: Maker) -> Iterator[Step]:
    """Six calls in a fixed order."""
    yield from laps(m, 6, 30)


@stuck(canonical=True)
def varied_arguments_same_error(m: Maker) -> Iterator[Step]:
    """New arguments each time, with one and the same failure."""
    tool = m.tool(*READ, *SEARCH)
    quoted = m.rng.random() < 0.5
    for name in m.several(40):
        shown = f"'{name}'" if quoted else name
        yield Step(m.call(tool, path=name), m.error(f"cannot open {shown}: permission denied (code 13)"))


@stuck(canonical=True, blind=True)
def failing_test_with_reads_between(m: Maker) -> Iterator[Step]:
    """One red test, with only reads between its runs."""
    test, read = m.tool(*TEST), m.tool(*READ)
    failure = m.prose(6)
    for name in m.several(40):
        yield Step(
            m.call(test, command="pytest -q"), m.text(f"FAILED test_{failure} 2 failed, 31 passed in {m.took()}")
        )
        yield Step(m.call(read, path=name), m.text(m.prose()))


@stuck(canonical=True, blind=True)
def paging_sweep_twice(m: Maker) -> Iterator[Step]:
    """Sixty pages, all of them read twice."""
    tool, key = m.tool(*SEARCH, *READ), m.rng.choice(("page", "offset", "cursor"))
    pages = [m.prose() for _ in range(60)]
    for _ in range(2):
        for number, text in enumerate(pages):
            yield Step(m.call(tool, **{key: number, "query": "all"}), m.text(text))


@stuck(canonical=True)
def blanks_varied(m: Maker) -> Iterator[Step]:
    """One query whose blanks vary."""
    tool, parts = m.tool(*SEARCH), m.several(1)[0].split("-")
    for number in range(30):
        glue = " " * (1 + number % 7)
        text = m.rng.choice(("", " ", "\t")) * (number % 3) + glue.join(parts) + " " * (number // 7)
        yield Step(m.call(tool, query=text), m.text("No results."))


def progress(m: Maker, call: ToolCall, count: int) -> Iterator[Step]:
    """A job whose counter moves."""
    for done in range(count):
        yield Step(m.call(call.tool, **call.arguments), m.fields(state="working", done=done * 3, total=count * 3), 2.0)
    yield Step(m.call(call.tool, **call.arguments), m.fields(state="finished", done=count * 3, total=count * 3), 2.0)


@legitimate(canonical=True)
def poll_with_progress(m: Maker) -> Iterator[Step]:
    """A job that is polled until it is done."""
    yield from progress(m, m.call(m.tool("get_job_status", "poll_task", "check_progress"), job=m.word()), 40)


@legitimate(canonical=True)
def poll_with_progress_generic_name(m: Maker) -> Iterator[Step]:
    """A job that is polled until it is done, by a tool whose name does not show that it polls."""
    yield from progress(m, m.call(m.tool("get_record", "fetch_item", "lookup_export"), record=m.word()), 40)


@legitimate(canonical=True)
def poll_that_waits(m: Maker) -> Iterator[Step]:
    """A poll with twelve equal answers; then the job is done."""
    tool, job = m.tool("get_job_status", "poll_task", "check_status", "job_progress"), m.word()
    state = m.rng.choice(("pending", "queued", "running", "in progress", "not ready"))
    for _ in range(12):
        yield Step(m.call(tool, job=job), m.fields(job=job, status=state), m.rng.choice((2.0, 10.0, 60.0)))
    yield Step(m.call(tool, job=job), m.fields(job=job, status="done", url=m.word()))


def edit_and_test(m: Maker, results: list[Outcome]) -> Iterator[Step]:
    """An edit, a test, an edit, a test."""
    edit, test, path = m.tool(*EDIT), m.tool(*TEST), m.several(1)[0]
    for result in results:
        yield Step(m.call(edit, path=path, old=m.prose(3), new=m.prose(3)), m.text("ok"))
        yield Step(m.call(test, command="pytest -q"), result)


@legitimate(canonical=True)
def edit_and_test_failures_change(m: Maker) -> Iterator[Step]:
    """Edits and tests; the failures change with every edit."""
    failing = [f"FAILED {m.prose(4)} {n} failed in {m.took()}" for n in range(9, 0, -1)]
    yield from edit_and_test(m, [m.text(text) for text in [*failing, f"all passed in {m.took()}"]])


@legitimate(canonical=True)
def edit_and_test_same_failure(m: Maker) -> Iterator[Step]:
    """Edits and tests; the failure stays for six edits, then it is gone."""
    failing = f"FAILED {m.prose(4)} 2 failed"
    yield from edit_and_test(m, [*(m.text(failing) for _ in range(6)), m.text("all passed")])


@legitimate(canonical=True)
def sixty_files(m: Maker) -> Iterator[Step]:
    """Sixty files read once."""
    tool = m.tool(*READ)
    for name in m.several(60):
        yield Step(m.call(tool, path=name), m.text(m.prose()))


@legitimate(canonical=True)
def read_again_after_each_edit(m: Maker) -> Iterator[Step]:
    """One file, edited and read again."""
    read, edit, path = m.tool(*READ), m.tool(*EDIT), m.several(1)[0]
    for _ in range(8):
        yield Step(m.call(read, path=path), m.text(m.prose()))
        yield Step(m.call(edit, path=path, text=m.prose(4)), m.text("ok"))


@legitimate(canonical=True)
def transient_errors(m: Maker) -> Iterator[Step]:
    """Two transient errors, then success."""
    tool, path = m.tool(*READ, *SEARCH), m.several(1)[0]
    fault = m.rng.choice(
        (
            "HTTP 503 Service Unavailable",
            "request timed out",
            "connection reset by peer",
            "status: 429",
            "model overloaded",
        )
    )
    for _ in range(2):
        yield Step(m.call(tool, path=path), m.error(fault))
    yield Step(m.call(tool, path=path), m.text(m.prose()))


@legitimate(canonical=True)
def forty_files_written(m: Maker) -> Iterator[Step]:
    """Forty files written, each "ok"."""
    tool = m.tool(*EDIT)
    for name in m.several(40):
        yield Step(m.call(tool, path=name, content=m.prose()), m.text("ok"))
