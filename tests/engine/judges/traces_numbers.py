"""Kinds in which only a number, a colour or an id distinguishes work from a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine.judges.traces import Maker, Step, legitimate, stuck
from tests.engine.judges.traces_canonical import READ

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK = ("get_page_text", "read_screen", "view_page", "get_cursor_position")


# -- work


@legitimate
def only_the_page_number_moves(m: Maker) -> Iterator[Step]:
    """One link clicked many times, and a look that shows the results that are on the page now."""
    word = m.word()
    for number in range(20):
        yield Step(m.call(m.tool("click_element", "browser_click", "press_button"), ref="next"), m.text("clicked"))
        yield Step(m.call(m.tool(*LOOK)), m.text(f"{word} {number * 10 + 1} to {number * 10 + 10} of 400"))


@legitimate
def deleted_in_portions(m: Maker) -> Iterator[Step]:
    """Two hundred rows deleted at a time, and the remaining ones counted."""
    for number in range(15):
        yield Step(m.call(m.tool("purge_batch", "delete_rows", "remove_old"), size=200), m.text("200 purged"))
        yield Step(m.call(m.tool("count_rows", "get_count")), m.text(f"{9_000 - number * 200} rows left"))


@legitimate
def deleted_by_sql(m: Maker) -> Iterator[Step]:
    """Rows deleted in portions and the remaining ones counted, with two SQL statements."""
    tool = m.tool("run_sql", "execute_query", "sql_query", "query_database")
    for number in range(15):
        yield Step(m.call(tool, sql="DELETE FROM t WHERE old LIMIT 200"), m.fields(affected=200))
        yield Step(m.call(tool, sql="SELECT count(*) FROM t WHERE old"), m.fields(count=9_000 - number * 200))


@legitimate
def edits_by_command(m: Maker) -> Iterator[Step]:
    """A patch by a command that begins with a custom program, and one check after each patch, still red."""
    tool = m.tool("bash", "run_in_sandbox", "workspace", "xq")
    for number in range(12):
        command = m.rng.choice((f"python patch{number}.py && cat log", f"env STEP={number} ./fix.sh"))
        yield Step(m.call(tool, command=command), m.text("done"))
        yield Step(m.call(tool, command="./app --show"), m.text("still broken"))


@legitimate
def queue_without_arguments(m: Maker) -> Iterator[Step]:
    """The next item of a queue under its own number, and "done" for it; neither call has arguments."""
    for number in range(16):
        yield Step(m.call(m.tool("pop", "claim_next", "dequeue_job", "receive_message")), m.fields(job=4_700 + number))
        yield Step(m.call(m.tool("ack", "mark_done", "complete_job")), m.text("ok"))


@legitimate
def uploaded_in_chunks(m: Maker) -> Iterator[Step]:
    """One call until everything is uploaded; the answer counts the chunks."""
    for number in range(40):
        yield Step(
            m.call(m.tool("upload_chunk", "push_batch", "write_export"), file="a"), m.text(f"{number} of 40 sent")
        )


# -- loops


@stuck
def coloured_times(m: Maker) -> Iterator[Step]:
    """One answer with a new time each time, in colour."""
    text = m.prose()
    for _ in range(20):
        yield Step(m.call(m.tool(*READ), path="inbox"), m.text(f"\x1b[32m{m.stamp()}\x1b[0m {text}"))


@stuck
def errors_under_ids(m: Maker) -> Iterator[Step]:
    """Other arguments each time, and one error under a new id."""
    text = m.prose(4)
    for name in m.several(20):
        yield Step(m.call(m.tool(*READ), path=name), m.error(f"{text} (request {m.uuid()}, object at 0x7f{m.hash()})"))


@stuck
def errors_that_say_short_arguments(m: Maker) -> Iterator[Step]:
    """Arguments of two letters, each repeated in the error."""
    for number in range(20):
        country = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number] + "X"
        yield Step(m.call(m.tool(*READ), country=country), m.error(f"No data for {country} is available"))


@stuck(blind=True)
def empty_queue_under_ids(m: Maker) -> Iterator[Step]:
    """An empty queue; each answer has a new id, which is what a tool of an unknown name may be for."""
    for _ in range(60):
        yield Step(
            m.call(m.tool("claim_job", "receive_message", "get_next_item")), m.fields(job=None, request=m.uuid())
        )


@stuck(blind=True)
def write_that_counts_its_attempts(m: Maker) -> Iterator[Step]:
    """One write that fails many times; only the number of the attempt moves."""
    tool = m.tool("update_row", "save_file", "write_record")
    said = m.rng.choice(("failed, attempt {} of 99", "0 bytes left (try {})", "ok, {} edits in total"))
    for number in range(60):
        yield Step(m.call(tool, path="a"), m.text(said.format(number)))
