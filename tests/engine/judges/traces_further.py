"""The further kinds that the design names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine.judges.traces import Maker, Step, legitimate, stuck
from tests.engine.judges.traces_canonical import EDIT, READ, SEARCH

if TYPE_CHECKING:
    from collections.abc import Iterator


@legitimate
def build_and_wait(m: Maker) -> Iterator[Step]:
    """A build that is polled, with a wait between the polls."""
    build, wait = m.tool("get_build", "fetch_build", "show_build"), m.tool("wait", "sleep_for", "pause_seconds")
    seconds = m.rng.choice((5, 10, 30))
    for _ in range(15):
        yield Step(m.call(build, id=7), m.fields(build=7, state=m.rng.choice(("running",))))
        yield Step(m.call(wait, seconds=seconds), m.text(f"waited {seconds} seconds"), float(seconds))
    yield Step(m.call(build, id=7), m.fields(build=7, state="passed"))


@legitimate
def cursor_tool_says_ok(m: Maker) -> Iterator[Step]:
    """A tool that moves a cursor and returns only "ok", and one that reads at the cursor."""
    move, read = m.tool("next_page", "scroll_down", "goto_next"), m.tool("read_page", "get_content", "view_screen")
    for _ in range(25):
        yield Step(m.call(move), m.text("ok"))
        yield Step(m.call(read), m.text(m.prose()))


@legitimate
def cd_and_ls(m: Maker) -> Iterator[Step]:
    """Folder after folder, each listed with the same call."""
    for folder in m.several(20):
        yield Step(m.call(m.tool("cd", "change_directory", "goto_folder"), path=folder), m.text(""))
        yield Step(m.call(m.tool("ls", "list_directory", "list_files")), m.text("\n".join(m.several(4))))


@legitimate
def find_in_page(m: Maker) -> Iterator[Step]:
    """Pages opened and searched for one word; most of them do not contain it, but never 17 in a row: see the docs."""
    for number, name in enumerate(m.several(30)):
        yield Step(m.call(m.tool("open_page", "goto_url", "navigate"), url=name), m.text(m.prose()))
        found = "No matches" if m.rng.random() < 0.8 and number % 16 != 15 else m.prose(4)
        yield Step(m.call(m.tool("find_in_page", "lookup", "search_page"), text="price"), m.text(found))


@legitimate
def queue_consumer(m: Maker) -> Iterator[Step]:
    """The next message, which is only an id, then work on it."""
    take = m.tool("next_message", "receive_message", "claim_job", "pop_task", "dequeue_item")
    work = m.tool("process_item", "handle_message", "update_record", "send_reply")
    for _ in range(30):
        token = m.uuid()
        yield Step(m.call(take, queue="main"), m.fields(id=token))
        yield Step(m.call(work, id=token), m.text("ok"))


@legitimate
def many_files(m: Maker) -> Iterator[Step]:
    """250 files read."""
    tool = m.tool(*READ)
    for name in m.several(250):
        yield Step(m.call(tool, path=name), m.text(m.prose()))


@legitimate
def search_and_corrections(m: Maker) -> Iterator[Step]:
    """A search that finds nothing, corrected four times."""
    tool, text = m.tool(*SEARCH), m.prose(6)
    for number in range(4):
        yield Step(m.call(tool, query=text[: -1 - number]), m.text("No results."))
    yield Step(m.call(tool, query=text), m.text(m.prose()))


@legitimate
def export_counters(m: Maker) -> Iterator[Step]:
    """An export whose counters move, one up and one down."""
    tool = m.tool("get_export", "export_state", "fetch_export")
    for batch in range(30):
        yield Step(m.call(tool, export="e"), m.text(f"batch {batch + 1}, {30 - batch} remaining of thirty"), 3.0)
    yield Step(m.call(tool, export="e"), m.text(f"complete: {m.word()}"))


@stuck
def request_ids(m: Maker) -> Iterator[Step]:
    """One answer under new request ids."""
    tool, text = m.tool(*SEARCH), m.prose()
    for _ in range(30):
        yield Step(m.call(tool, query="a"), m.fields(request_id=m.rng.choice((m.uuid(), m.hash())), answer=text))


@stuck
def durations(m: Maker) -> Iterator[Step]:
    """One answer with another duration each time."""
    tool, text = m.tool(*SEARCH), m.prose()
    for _ in range(30):
        yield Step(m.call(tool, query="a"), m.text(f"{text} Done in {m.rng.randint(20, 900)} ms"))


@stuck
def shuffled_keys(m: Maker) -> Iterator[Step]:
    """One JSON object with its keys in another order each time."""
    m.format = "shuffled"
    tool, said = m.tool(*READ), dict(zip(m.several(6), m.several(6), strict=True))
    for _ in range(30):
        yield Step(m.call(tool, path="a"), m.fields(**said))


@stuck
def order_again_and_again(m: Maker) -> Iterator[Step]:
    """One order placed many times, each time with a new number."""
    tool = m.tool("place_order", "create_order", "book_ticket", "buy_item")
    for _ in range(30):
        yield Step(m.call(tool, item="lamp", amount=1), m.fields(order=m.uuid(), message="order placed"))


@stuck
def toggling(m: Maker) -> Iterator[Step]:
    """On, off, on, off."""
    tool = m.tool("toggle_switch", "set_switch", "flip_light")
    for number in range(40):
        yield Step(m.call(tool, light="hall"), m.fields(light="hall", state=("on", "off")[number % 2]))


@stuck
def ids_alternating_with_a_read(m: Maker) -> Iterator[Step]:
    """A new id, the same read, a new id, the same read."""
    create, read, text = m.tool("create_draft", "add_note_item", "insert_row"), m.tool(*READ), m.prose()
    for _ in range(30):
        yield Step(m.call(create, title="t"), m.fields(id=m.uuid(), result="created"))
        yield Step(m.call(read, path="a"), m.text(text))


@stuck
def list_rewrite_commit(m: Maker) -> Iterator[Step]:
    """Listing, rewriting the same and committing under a new hash."""
    listing, message = "\n".join(m.several(4)), m.prose(3)
    for _ in range(30):
        yield Step(m.call(m.tool("list_files", "list_directory", "get_tree"), path="."), m.text(listing))
        yield Step(m.call(m.tool(*EDIT), path="a", content="same"), m.text("ok"))
        yield Step(
            m.call(m.tool("git_commit", "commit_changes", "save_revision")), m.text(f"[main {m.hash(7)}] {message}")
        )


@stuck
def always_queued(m: Maker) -> Iterator[Step]:
    """A state that stays "queued"."""
    tool = m.tool("get_job_status", "get_job", "check_task", "job_info")
    for _ in range(60):
        yield Step(m.call(tool, job="j"), m.fields(job="j", status="queued"), 5.0)


@stuck
def names_made_up(m: Maker) -> Iterator[Step]:
    """Tools that do not exist."""
    m.known = frozenset({m.tool(*READ), m.tool(*EDIT)})
    for name in m.several(12):
        tool = name.replace("-", "_")
        yield Step(m.call(tool, path="a"), m.error(f"Unknown tool: {tool}"))
