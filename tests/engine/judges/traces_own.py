"""Kinds that the design does not name, from complaints of users of agents: work and loops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from otel_loopguard.engine.vocabulary import Outcome
from tests.engine.judges.traces import Maker, Step, legitimate, stuck
from tests.engine.judges.traces_canonical import EDIT, READ, SEARCH, TEST

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK = ("get_snapshot", "read_screen", "view_page", "browser_snapshot")
CLICK = ("click_element", "browser_click", "press_button", "click")
STATUS = ("get_job_status", "check_status", "poll_job", "task_progress")


# -- work


@legitimate
def browser_form(m: Maker) -> Iterator[Step]:
    """Fields filled in, each "ok", with a look in between that shows something else each time."""
    for name in m.several(12):
        yield Step(m.call(m.tool("fill_field", "type_text", "browser_type"), field=name, text=m.word()), m.text("ok"))
        yield Step(m.call(m.tool(*LOOK)), m.text(m.prose()))


@legitimate
def browser_next_page(m: Maker) -> Iterator[Step]:
    """One link clicked and the page looked at, twenty times; the pages differ."""
    for _ in range(20):
        yield Step(m.call(m.tool(*CLICK), ref="next"), m.text("clicked"))
        yield Step(m.call(m.tool(*LOOK)), m.text(m.prose()))


@legitimate
def sql_between_inserts(m: Maker) -> Iterator[Step]:
    """Rows inserted in portions and counted with one statement."""
    tool = m.tool("run_sql", "execute_query", "sql_query", "query_database")
    for number, name in enumerate(m.several(15)):
        yield Step(m.call(tool, sql=f"INSERT INTO t VALUES ('{name}')"), m.fields(affected=1))
        yield Step(m.call(tool, sql="SELECT count(*) FROM t"), m.fields(count=number + 1))


@legitimate
def paging_by_cursor(m: Maker) -> Iterator[Step]:
    """Forty pages by opaque cursors; some pages are empty."""
    tool, cursor = m.tool("list_issues", "search_records", "get_events", "list_messages"), None
    for number in range(40):
        after = m.hash(16)
        rows = [] if number % 9 == 5 else m.several(3)
        yield Step(m.call(tool, cursor=cursor), m.fields(rows=rows, next=after))
        cursor = after


@legitimate
def long_job_spaced(m: Maker) -> Iterator[Step]:
    """A job polled every minute for forty minutes: one answer all the time, then done."""
    tool = m.tool(*STATUS)
    for _ in range(40):
        yield Step(m.call(tool, job=3), m.fields(status="running", job=3), 61.0)
    yield Step(m.call(tool, job=3), m.fields(status="done", job=3), 61.0)


@legitimate
def notebook(m: Maker) -> Iterator[Step]:
    """Cells that are changed and run again; one check after each."""
    run = m.tool("run_cell", "execute_cell", "notebook_run")
    for number in range(12):
        yield Step(m.call(run, code=m.prose(4)), m.text(f"Out[{2 * number + 1}]: {m.prose(3)}"))
        yield Step(m.call(run, code="df.describe()"), m.text(f"Out[{2 * number + 2}]: {m.prose(5)}"))


@legitimate
def retries_with_backoff(m: Maker) -> Iterator[Step]:
    """Four transient errors, each with a longer wait after it, then success."""
    tool = m.tool("call_api", "fetch_url", "get_quote", "http_request")
    for attempt in range(4):
        yield Step(m.call(tool, url="https://a.example"), m.error("HTTP 429 Too Many Requests"), 2.0**attempt)
    yield Step(m.call(tool, url="https://a.example"), m.text(m.prose()), 16.0)


@legitimate
def arguments_corrected(m: Maker) -> Iterator[Step]:
    """A server that names another missing field each time."""
    tool, names, given = m.tool("create_issue", "create_ticket", "add_event"), m.several(6), {}
    for name in names:
        yield Step(m.call(tool, **given), m.error(f"Invalid params: missing field {name}"))
        given = {**given, name.replace("-", "_"): m.word()}
    yield Step(m.call(tool, **given), m.fields(id=m.uuid(), created=True))


@legitimate
def streaming_log(m: Maker) -> Iterator[Step]:
    """A log that is read many times and has more lines each time."""
    tool = m.tool("tail_log", "read_output", "get_logs", "console_output")
    for _ in range(50):
        yield Step(m.call(tool, name="app"), m.text(f"{m.stamp()} {m.prose()}"), 1.0)


@legitimate
def todo_list(m: Maker) -> Iterator[Step]:
    """A list of tasks, rewritten after each piece of work."""
    items = m.several(10)
    for done, item in enumerate(items):
        listed = [{"text": name, "done": place < done} for place, name in enumerate(items)]
        yield Step(m.call(m.tool("todo_write", "update_todos", "write_todos"), todos=listed), m.text("Todos updated."))
        yield Step(m.call(m.tool(*READ), path=item), m.text(m.prose()))
        yield Step(m.call(m.tool(*EDIT), path=item, text=m.prose(3)), m.text("ok"))


@legitimate
def sub_agents(m: Maker) -> Iterator[Step]:
    """Calls of sub-agents; one gets "continue" several times and does more each time."""
    tool = m.tool("run_agent", "delegate_task", "spawn_subagent", "ask_agent")
    for _ in range(8):
        yield Step(m.call(tool, prompt=m.prose()), m.text(m.prose()))
        yield Step(m.call(tool, prompt="continue"), m.text(m.prose()))


@legitimate
def thinking_in_steps(m: Maker) -> Iterator[Step]:
    """Fifteen thoughts, for which the tool returns only their number, and some reads in between."""
    think = m.tool("sequential_thinking", "think", "think_step")
    for number in range(15):
        thought = m.call(think, thought=m.prose(), number=number + 1, total=15)
        yield Step(thought, m.fields(number=number + 1, total=15, branches=[]))
        if number % 4 == 3:
            yield Step(m.call(m.tool(*READ), path=m.several(1)[0]), m.text(m.prose()))


@legitimate
def keys_declared(m: Maker) -> Iterator[Step]:
    """One key pressed fifty times; the tool is declared as a step."""
    tool = m.tool("press_key", "send_key", "hit_key")
    m.declare(tool, kind="step")
    for _ in range(50):
        yield Step(m.call(tool, key="Down"), m.text("ok"))


@legitimate
def lint_and_fix(m: Maker) -> Iterator[Step]:
    """Edits and lint runs; the number of faults goes up and down."""
    for count in (9, 7, 8, 8, 5, 6, 6, 3, 3, 1):
        yield Step(m.call(m.tool(*EDIT), path="a", text=m.prose(4)), m.text("ok"))
        yield Step(m.call(m.tool("run_lint", "lint_code", "check_style")), m.text(f"{count} problems in a.py"))


@legitimate
def commits(m: Maker) -> Iterator[Step]:
    """Edit, look at the state, commit; the state is clean after each commit."""
    shell = m.tool("bash", "shell", "run_command", "terminal")
    for number in range(8):
        yield Step(m.call(m.tool(*EDIT), path="a", text=m.prose(4)), m.text("ok"))
        yield Step(m.call(shell, command="git status --short"), m.text(" M a"))
        message = f"git commit -am 'part {number}'"
        yield Step(m.call(shell, command=message), m.text(f"[main {m.hash(7)}] part {number}\n 1 file changed"))
        yield Step(m.call(shell, command="git status"), m.text("nothing to commit, working tree clean"))


@legitimate
def calendar(m: Maker) -> Iterator[Step]:
    """Days looked through, mostly free; events put in; the list looked at after each."""
    for day, name in enumerate(m.several(14)):
        free = m.text("no events") if day % 3 else m.fields(events=m.several(2))
        yield Step(m.call(m.tool("list_events", "get_calendar", "show_day"), day=day), free)
        if day % 3:
            yield Step(m.call(m.tool("create_event", "add_event"), title=name, day=day), m.fields(id=m.uuid(), ok=True))
            yield Step(m.call(m.tool("list_invites", "get_invites")), m.text("none"))


@legitimate
def messages_to_many(m: Maker) -> Iterator[Step]:
    """One text sent to thirty people."""
    for name in m.several(30):
        yield Step(m.call(m.tool("send_message", "chat_send", "post_reply"), to=name, text="hello"), m.text("sent"))


@legitimate
def flickering_status(m: Maker) -> Iterator[Step]:
    """A state that goes back and forth before it is done."""
    tool = m.tool(*STATUS)
    for number in range(14):
        yield Step(m.call(tool, job=1), m.fields(status=("queued", "running")[number // 2 % 2], job=1), 3.0)
    yield Step(m.call(tool, job=1), m.fields(status="done", job=1), 3.0)


@legitimate
def two_jobs(m: Maker) -> Iterator[Step]:
    """Two jobs polled in turn until both are done."""
    tool = m.tool(*STATUS)
    for _ in range(8):
        for job in ("left", "right"):
            yield Step(m.call(tool, job=job), m.fields(job=job, state="pending"), 4.0)
    for job in ("left", "right"):
        yield Step(m.call(tool, job=job), m.fields(job=job, state="ready"), 4.0)


@legitimate
def index_refreshed(m: Maker) -> Iterator[Step]:
    """Searches that find nothing at first; after a refresh, which returns only "ok", each finds something."""
    refresh, search = m.tool("refresh_index", "reindex", "sync_index"), m.tool(*SEARCH)
    for name in m.several(5):
        yield Step(m.call(search, query=name), m.text("No results."))
        yield Step(m.call(refresh), m.text("ok"))
        yield Step(m.call(search, query=name), m.text(m.prose()))


@legitimate
def deleted_in_portions(m: Maker) -> Iterator[Step]:
    """One delete call until nothing is left; each answer has fewer left."""
    tool = m.tool("delete_messages", "purge_records", "remove_items")
    for left in range(15, 0, -1):
        yield Step(m.call(tool, folder="spam"), m.fields(deleted=100, left=left * 100))
    yield Step(m.call(tool, folder="spam"), m.text("folder is empty"))


@legitimate
def flag_tried_both_ways(m: Maker) -> Iterator[Step]:
    """A flag set, tested, unset, tested, set once more, tested, and then something else is done."""
    edit, test = m.tool(*EDIT), m.tool(*TEST)
    with_flag, without = m.text(f"FAILED {m.prose(3)}"), m.text(f"FAILED {m.prose(4)}")
    for value, result in ((True, with_flag), (False, without), (True, with_flag)):
        yield Step(m.call(edit, path="a", flag=value), m.text("ok"))
        yield Step(m.call(test, command="make test"), result)
    yield Step(m.call(edit, path="b", text=m.prose()), m.text("ok"))
    yield Step(m.call(test, command="make test"), m.text("all passed"))


@legitimate
def price_watched(m: Maker) -> Iterator[Step]:
    """A price that goes up and down, looked at every minute."""
    tool = m.tool("get_price", "fetch_quote", "read_gauge")
    price = 100.0
    for _ in range(30):
        price = round(price + m.rng.choice((-1, 1)) * m.rng.uniform(0.1, 2), 2)
        yield Step(m.call(tool, symbol="X"), m.fields(symbol="X", price=price), 60.0)


@legitimate
def greps_that_find_nothing(m: Maker) -> Iterator[Step]:
    """Two dozen patterns looked for, none of them there. From the 25th on the model has to insist."""
    for name in m.several(24):
        yield Step(m.call(m.tool(*SEARCH), pattern=name), m.text("No matches found"))


@legitimate
def guessed_paths(m: Maker) -> Iterator[Step]:
    """Four wrong paths, then the right one."""
    tool, names = m.tool(*READ), m.several(5)
    for name in names[:4]:
        yield Step(m.call(tool, path=name), m.error(f"No such file: '{name}'"))
    yield Step(m.call(tool, path=names[4]), m.text(m.prose()))


@legitimate
def reread_while_reading(m: Maker) -> Iterator[Step]:
    """One file looked at four times in a long reading."""
    tool, text = m.tool(*READ), m.prose()
    for number, name in enumerate(m.several(32)):
        if number % 8 == 0:
            yield Step(m.call(tool, path="main"), m.text(text))
        yield Step(m.call(tool, path=name), m.text(m.prose()))


@legitimate
def computer_use(m: Maker) -> Iterator[Step]:
    """Typing, key presses and screenshots, all by one tool with an action."""
    tool = m.tool("computer", "desktop", "computer_use")
    for _ in range(12):
        yield Step(m.call(tool, action="key", text="Tab"), m.text("done"))
        yield Step(m.call(tool, action="type", text=m.word()), m.text("done"))
        yield Step(m.call(tool, action="screenshot"), m.text(m.prose(20)))


@legitimate
def work_between_polls(m: Maker) -> Iterator[Step]:
    """A long job polled now and then while other work is done."""
    for name in m.several(24):
        yield Step(m.call(m.tool(*STATUS), job=5), m.fields(job=5, status="running"), 2.0)
        yield Step(m.call(m.tool(*EDIT), path=name, text=m.prose(3)), m.text("ok"))
    yield Step(m.call(m.tool(*STATUS), job=5), m.fields(job=5, status="done"), 2.0)


@legitimate
def sleep_in_the_shell(m: Maker) -> Iterator[Step]:
    """`sleep` in turn with a look at a growing output."""
    shell = m.tool("bash", "shell", "run_command", "terminal")
    for number in range(15):
        yield Step(m.call(shell, command="sleep 20"), m.text(""), 20.0)
        lines = "\n".join(f"{m.word()} {n}" for n in range(number + 1))
        yield Step(m.call(shell, command="tail -n 50 out.log"), m.text(lines))


@legitimate
def waits_while_another_works(m: Maker) -> Iterator[Step]:
    """One wait made twenty-five times, while the awaited work moves."""
    wait, read = m.tool("wait", "sleep", "pause"), m.tool("get_report", "read_report", "view_report")
    for _ in range(25):
        yield Step(m.call(wait, seconds=5), m.text("ok"), 5.0)
        yield Step(m.call(read), m.text(m.prose()))


@legitimate
def measured_again(m: Maker) -> Iterator[Step]:
    """A benchmark run again after each change; only its duration differs."""
    for _ in range(10):
        yield Step(m.call(m.tool(*EDIT), path="a", text=m.prose(3)), m.text("ok"))
        yield Step(
            m.call(m.tool("run_benchmark", "bash", "execute_bench"), command="bench"), m.text(f"total {m.took()}")
        )


# -- stuck


@stuck
def click_and_nothing_happens(m: Maker) -> Iterator[Step]:
    """A click, a look, and an unchanged page."""
    page = m.prose(30)
    for _ in range(30):
        yield Step(m.call(m.tool(*CLICK), ref="b7"), m.text("clicked"))
        yield Step(m.call(m.tool(*LOOK)), m.text(page))


@stuck
def sql_with_other_line_breaks(m: Maker) -> Iterator[Step]:
    """One failing statement, with another layout each time."""
    tool = m.tool("run_sql", "execute_query", "query_database")
    for number in range(20):
        gaps = ["\n" if number >> place & 1 else " " * (1 + number % 3) for place in range(3)]
        sql = f"SELECT name{gaps[0]}FROM users{gaps[1]}WHERE{gaps[2]}agee > 3"
        yield Step(m.call(tool, sql=sql), m.error('column "agee" does not exist'))


@stuck
def cursor_that_does_not_move(m: Maker) -> Iterator[Step]:
    """One page each time, under a new request id."""
    tool, rows = m.tool("list_issues", "search_records", "get_events"), m.several(3)
    for _ in range(30):
        yield Step(m.call(tool, cursor="abc"), m.fields(rows=rows, next="abc", request_id=m.uuid()))


@stuck
def job_that_never_ends(m: Maker) -> Iterator[Step]:
    """A state that does not change, and short waits."""
    for _ in range(50):
        yield Step(m.call(m.tool(*STATUS), job=1), m.fields(job=1, status="running"))
        yield Step(m.call(m.tool("wait", "sleep", "pause"), seconds=5), m.text("ok"), 5.0)


@stuck
def notebook_cell_fails(m: Maker) -> Iterator[Step]:
    """One cell with one error; only the count of runs differs."""
    tool = m.tool("run_cell", "execute_cell", "notebook_run")
    for number in range(40):
        yield Step(m.call(tool, code="plot(x)"), m.error(f"In [{number + 1}] NameError: name 'x' is not defined"))


@stuck
def retry_storm(m: Maker) -> Iterator[Step]:
    """A server that is down, called without pause."""
    for _ in range(30):
        yield Step(
            m.call(m.tool("call_api", "fetch_url", "get_quote"), url="u"), m.error("HTTP 503 Service Unavailable"), 0.1
        )


@stuck
def json_rpc_error(m: Maker) -> Iterator[Step]:
    """A server's error whose request number grows."""
    tool = m.tool("create_issue", "update_ticket", "query_index")
    for number in range(40):
        error = {"jsonrpc": "2.0", "id": number + 11, "error": {"code": -32602, "message": "Invalid params"}}
        yield Step(m.call(tool, title="t"), m.error(json.dumps(error)))


@stuck
def log_that_says_nothing_new(m: Maker) -> Iterator[Step]:
    """A log in which only the time is new."""
    for _ in range(40):
        said = f"{m.stamp()} worker idle, waiting for input"
        yield Step(m.call(m.tool("tail_log", "read_output", "get_logs"), name="app"), m.text(said))


@stuck
def todo_rewritten(m: Maker) -> Iterator[Step]:
    """One list written and read, written and read."""
    todos = m.several(4)
    for _ in range(30):
        yield Step(m.call(m.tool("todo_write", "update_todos", "write_todos"), todos=todos), m.text("Todos updated."))
        yield Step(m.call(m.tool("todo_read", "get_todos", "list_todos")), m.fields(todos=todos))


@stuck
def sub_agent_declines(m: Maker) -> Iterator[Step]:
    """One task for a sub-agent, with one answer."""
    text = m.prose()
    for _ in range(20):
        yield Step(m.call(m.tool("run_agent", "delegate_task", "ask_agent"), prompt="do it"), m.text(text))


@stuck
def same_thought(m: Maker) -> Iterator[Step]:
    """One thought and one search, without end."""
    thought, text = m.prose(), m.prose()
    for _ in range(20):
        yield Step(m.call(m.tool("think", "think_step", "make_note"), thought=thought), m.text(""))
        yield Step(m.call(m.tool(*SEARCH), query="q"), m.text(text))


@stuck
def edit_back_and_forth(m: Maker) -> Iterator[Step]:
    """A to B, the lint complains; B to A, the lint complains of the other."""
    complaints = m.several(2)
    for number in range(40):
        new, old = ("x", "y") if number % 2 else ("y", "x")
        yield Step(m.call(m.tool(*EDIT), path="a", old=old, new=new), m.text("ok"))
        yield Step(m.call(m.tool("run_lint", "lint_code", "check_style")), m.text(f"a.py: {complaints[number % 2]}"))


@stuck
def nothing_to_commit(m: Maker) -> Iterator[Step]:
    """A commit that does nothing, and the state."""
    shell = m.tool("bash", "shell", "run_command", "terminal")
    for _ in range(20):
        yield Step(m.call(shell, command="git commit -am done"), m.error("nothing to commit, working tree clean"))
        yield Step(m.call(shell, command="git status"), m.text("nothing to commit, working tree clean"))


@stuck
def calendar_conflict(m: Maker) -> Iterator[Step]:
    """One event refused under a new conflict number each time."""
    for _ in range(20):
        yield Step(
            m.call(m.tool("create_event", "add_event", "book_room"), day=3, title="t"),
            m.error(f"conflict {m.uuid()}: the room is taken"),
        )


@stuck
def chat_sent_again(m: Maker) -> Iterator[Step]:
    """One message sent many times; each gets a new number and time."""
    for _ in range(20):
        yield Step(
            m.call(m.tool("send_message", "chat_send", "post_reply"), to="a", text="hello"),
            m.fields(ok=True, channel="general", message_id=m.uuid(), at=m.stamp()),
        )


@stuck
def search_reworded(m: Maker) -> Iterator[Step]:
    """One question in slightly different words; its tool's contract names the query."""
    tool = m.tool(*SEARCH)
    m.declare(tool, query="query")
    for ending in m.several(20):
        text = f"what is the refund policy for cancelled flights {ending[:4]}"
        yield Step(m.call(tool, query=text), m.text("Nothing found."))


@stuck
def hand_offs(m: Maker) -> Iterator[Step]:
    """Two agents that hand over to each other."""
    for number in range(30):
        name = ("billing", "support")[number % 2]
        tool = m.tool("handoff", "handoff_to_agent", "transfer_to_agent")
        yield Step(m.call(tool, agent=name), m.text(f"Transferred to {name}."))


@stuck
def keys_in_another_order(m: Maker) -> Iterator[Step]:
    """One set of arguments in another order, as an object and as JSON text."""
    tool, given, text = m.tool(*SEARCH), dict(zip(m.several(5), m.several(5), strict=True)), m.prose()
    for number in range(20):
        items = list(given.items())
        m.rng.shuffle(items)
        call = m.call(tool)
        arguments = dict(items) if number % 2 else json.dumps(dict(items), indent=number % 4 or None)
        yield Step(call._replace(arguments=arguments), m.text(text))


@stuck
def flickering_for_ever(m: Maker) -> Iterator[Step]:
    """A state that goes back and forth and never ends."""
    for number in range(60):
        status = ("queued", "running")[number % 2]
        yield Step(m.call(m.tool(*STATUS), job=1), m.fields(status=status, job=1), 3.0)


@stuck(blind=True)
def sweep_with_request_ids(m: Maker) -> Iterator[Step]:
    """Thirty pages, four times, each answer under a new request id."""
    pages = [m.prose() for _ in range(30)]
    for _ in range(4):
        for number, text in enumerate(pages):
            yield Step(m.call(m.tool(*SEARCH), page=number), m.fields(text=text, request_id=m.uuid()))


@stuck
def long_cycle(m: Maker) -> Iterator[Step]:
    """Twelve calls in a fixed order, again and again."""
    names, texts = m.several(12), [m.prose() for _ in range(12)]
    for _ in range(6):
        for name, text in zip(names, texts, strict=True):
            yield Step(m.call(m.tool(*READ), path=name), m.text(text))


@stuck(blind=True)
def wandering(m: Maker) -> Iterator[Step]:
    """Six calls in no order. Short answers of a tool whose name says nothing may be acknowledgements."""
    names, texts = m.several(6), [m.prose() for _ in range(6)]
    for _ in range(60):
        place = m.rng.randrange(6)
        yield Step(m.call(m.tool(*READ), path=names[place]), m.text(texts[place]))


@stuck
def waiting_for_nothing(m: Maker) -> Iterator[Step]:
    """One short wait, without end."""
    for _ in range(60):
        yield Step(m.call(m.tool("wait", "sleep", "pause"), seconds=5), m.text("ok"), 5.0)


@stuck
def spaced_for_hours(m: Maker) -> Iterator[Step]:
    """A state polled every minute for three hours; it does not change."""
    for _ in range(180):
        yield Step(m.call(m.tool(*STATUS), job=1), m.fields(status="running", job=1), 60.0)


@stuck
def permission_denied_everywhere(m: Maker) -> Iterator[Step]:
    """Another machine each time, with one and the same refusal."""
    shell = m.tool("bash", "shell", "run_command", "terminal")
    for name in m.several(20):
        yield Step(m.call(shell, command=f"ssh {name} uptime"), m.error("Permission denied (publickey)."))


@stuck
def paid_twice(m: Maker) -> Iterator[Step]:
    """An invoice paid again though its tool was declared to do it once."""
    tool = m.tool("pay_invoice", "transfer_money", "charge_card")
    m.declare(tool, once=True)
    for _ in range(4):
        yield Step(m.call(tool, invoice="i"), m.fields(paid=True, receipt=m.uuid()))


@stuck
def cap_used_up(m: Maker) -> Iterator[Step]:
    """More calls than the contract allows."""
    tool = m.tool(*SEARCH)
    m.declare(tool, cap=5)
    for name in m.several(8):
        yield Step(m.call(tool, query=name), m.text(m.prose()))


@stuck
def error_and_success(m: Maker) -> Iterator[Step]:
    """A service that fails and works in turn and returns nothing new."""
    tool, text = m.tool(*READ), m.prose()
    for number in range(40):
        yield Step(m.call(tool, path="a"), m.error("backend exploded") if number % 2 else m.text(text))


@stuck
def empty_answers(m: Maker) -> Iterator[Step]:
    """One call with an empty result."""
    empty = m.rng.choice(("", [], {}, None))
    for _ in range(12):
        yield Step(m.call(m.tool(*READ), path="a"), Outcome(empty))


@stuck
def big_results(m: Maker) -> Iterator[Step]:
    """One long page with a fresh time at its head."""
    body = "\n".join(m.prose(14) for _ in range(300))
    for _ in range(20):
        yield Step(m.call(m.tool(*READ), path="a"), m.text(f"<!-- served {m.stamp()} -->\n{body}"))
