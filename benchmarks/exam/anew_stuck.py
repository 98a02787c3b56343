"""Agents that are stuck, drawn anew and without a look at the rule, after reports of users and from practice.

``told`` and ``refused`` are calls counted from 1, as a careful human who reads along would set them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam.trace import stuck

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


@stuck(told=6, refused=None)
def edit_of_text_that_is_not_there(run: Run) -> None:
    """A coder guesses at the text to replace in one file, and never reads the file."""
    path = run.file("ts")
    for _ in range(26):
        text = f"Error: old_string was not found in {path}. Make sure that it matches exactly."
        run.fails("fs.edit_file", text, path=path, old=run.lines(2), new=run.lines(2))


@stuck(told=5, refused=10)
def test_run_again_in_hope(run: Run) -> None:
    """A test fails by the same assertion, nothing is edited, and it is run again; only the seconds differ."""
    name, line = f"test_{run.word()}", run.number(10, 300)
    for _ in range(28):
        text = (
            f"{name}: AssertionError: expected 3 items, got 2 (line {line})\n1 failed in {run.number(90, 999) / 100}s"
        )
        run.fails("sh.bash", text, command=f"pytest -x -k {name}")


@stuck(told=10, refused=20)
def job_started_again(run: Run) -> None:
    """A CI job is started again, awaited and its log read: each run has a new number and the same missing secret."""
    for _ in range(14):
        number = run.number(10**8, 10**9)
        run("ci.start_run", {"run_id": number, "status": "queued"}, workflow="release.yml", ref="main")
        run("ci.get_run", {"run_id": number, "conclusion": "failure"}, wait=90, run_id=number)
        run("ci.get_run_log", "Error: Input required and not supplied: token", run_id=number)


@stuck(told=4, refused=9)
def hook_that_blocks_the_end(run: Run) -> None:
    """The agent wants to finish, a hook demands a changelog first, and the agent wants to finish again."""
    for _ in range(26):
        text = "Blocked by hook pre-finish: CHANGELOG.md has no entry for this change."
        run.fails("team.finish_task", text, summary=run.prose(14))


@stuck(told=7, refused=15)
def empty_file_in_other_encodings(run: Run) -> None:
    """An empty file is read in four encodings, one after the other, and again."""
    path = run.file("csv")
    for number in range(32):
        run("fs.read_file", "", path=path, encoding=("utf-8", "latin-1", "utf-16", "cp1252")[number % 4])


@stuck(told=7, refused=14)
def banner_that_stays(run: Run) -> None:
    """A banner is clicked away, and the page that is read shows the banner as before."""
    page = f"[1] dialog: We value your privacy [2] button: Accept all [3] heading: {run.prose(6)}"
    for _ in range(15):
        run("web.click", "Clicked element 2", index=2)
        run("web.read_page", page)


@stuck(told=5, refused=11)
def captcha_tried_again(run: Run) -> None:
    """A captcha is clicked, and refused under a new id each time."""
    for _ in range(26):
        run(
            "web.click", f"Verification failed. Please try again. Challenge {run.hex(24)}", selector="#recaptcha-anchor"
        )


@stuck(told=9, refused=18)
def form_with_one_bad_field(run: Run) -> None:
    """The same postcode is typed and sent, and the page says that it is not one."""
    street = run.word()
    for _ in range(13):
        run("web.fill", "Typed into element 14", index=14, text="00000")
        run("web.click", "Clicked element 21", index=21)
        run("web.read_page", f"Delivery address\n{street} street 4\nPostcode is not valid\nContinue")


@stuck(told=6, refused=None)
def elements_guessed(run: Run) -> None:
    """Elements of a page are clicked by indexes that do not exist, one after the other."""
    for number in range(26):
        run.fails("web.click", f"Element with index {40 + number} does not exist", index=40 + number)


@stuck(told=4, refused=10)
def no_human_is_free(run: Run) -> None:
    """A customer is handed to a human; nobody is free, and it is tried again at once."""
    for _ in range(26):
        run("crm.transfer_to_human", "All agents are busy. Please try again later.", summary=run.prose(10))


@stuck(told=8, refused=None)
def coupons_guessed(run: Run) -> None:
    """Codes of coupons are made up for a customer; none is valid."""
    for _ in range(28):
        code = f"{run.word()[:5].upper()}{run.number(5, 50)}"
        run("shop.use_coupon", {"valid": False, "reason": "unknown code"}, cart="C-118", code=code)


@stuck(told=4, refused=9)
def one_moment_please(run: Run) -> None:
    """A customer is told to wait a moment, again and again, and nothing is done meanwhile."""
    for _ in range(26):
        run("crm.send_message", {"sent": True, "message_id": run.uuid()}, text="One moment please, I am checking this.")


@stuck(told=6, refused=None)
def columns_guessed(run: Run) -> None:
    """Columns of a table are guessed, each of which does not exist; the table is never described."""
    table = run.word()
    for _ in range(26):
        column = f"{run.word()}_{run.choice('id', 'date', 'name', 'total')}"
        text = f'ERROR: column "{column}" does not exist\nLINE 1: SELECT {column} FROM {table}'
        run.fails("db.query", text, sql=f"SELECT {column} FROM {table} LIMIT 10")


@stuck(told=4, refused=10)
def report_exported_again(run: Run) -> None:
    """The same report is exported under a new number each time, and none is ever fetched."""
    for _ in range(26):
        run(
            "db.export_report",
            {"export": run.number(10**5, 10**6), "state": "accepted"},
            report="sales",
            month="2026-04",
        )


@stuck(told=8, refused=15)
def restart_and_crash(run: Run) -> None:
    """On call: a service is restarted, is unhealthy for the same reason, and is restarted again."""
    service, reason = run.word(), f"missing env {run.word().upper()}_URL"
    for _ in range(15):
        run("ops.restart_service", {"restarted": service, "pid": run.number(900, 60000)}, service=service)
        run("ops.check_health", {"healthy": False, "reason": reason}, ran=8, service=service)


@stuck(told=4, refused=10)
def alert_confirmed_again(run: Run) -> None:
    """The same alert is acknowledged again and again; it is so already."""
    alert = run.hex(8)
    for _ in range(26):
        run("ops.confirm_alert", {"alert": alert, "changed": False, "state": "acknowledged"}, alert=alert)


@stuck(told=7, refused=14)
def voice_without_an_answer(run: Run) -> None:
    """A voice agent asks the same and hears nothing: the caller has hung up."""
    for _ in range(16):
        run("voice.say", "ok", text="Sorry, I did not catch that. Could you say it again?")
        run("voice.listen", {"transcript": "", "silence": True}, ran=6)


@stuck(told=6, refused=14)
def telephone_menu(run: Run) -> None:
    """A caller's agent presses keys in a menu that leads back to its start: 1, then 2, then 1."""
    menu = "For orders press 1. For returns press 2. For anything else stay on the line."
    for number in range(30):
        run(
            "voice.press_key",
            {"heard": menu if number % 2 else "We are closed now. You return to the menu."},
            key=1 + number % 2,
        )


@stuck(told=4, refused=10)
def order_on_a_closed_market(run: Run) -> None:
    """The same order is placed on a market that is closed until tomorrow; the number of the request differs."""
    symbol = run.word()[:4].upper()
    for _ in range(26):
        text = f"rejected: market closed until 2026-05-12T13:30Z (request {run.hex(10)})"
        run.fails("trade.place_order", text, symbol=symbol, side="buy", quantity=10)


@stuck(told=8, refused=16)
def thermostat_to_and_fro(run: Run) -> None:
    """A thermostat is set to 20 and to 23 degrees in turn; nothing else is done."""
    for _ in range(16):
        for degrees in (20, 23):
            run("home.set_temperature", {"target": degrees, "mode": "heat"}, room="bath", target=degrees)


@stuck(told=5, refused=14)
def sensor_offline(run: Run) -> None:
    """A sensor that is offline since yesterday is read again and again, without a wait."""
    state = {"state": "unavailable", "last_seen": f"2026-05-10T0{run.number(1, 9)}:12:00Z"}
    for _ in range(30):
        run("home.get_state", state, entity="sensor.cellar")


@stuck(told=7, refused=13)
def mail_that_bounces(run: Run) -> None:
    """A mail bounces, as the address does not exist, and is sent there again."""
    address, subject = f"{run.word()}@{run.word()}.example", run.prose(4)
    for _ in range(15):
        run("office.send_mail", {"id": run.hex(16), "state": "sent"}, to=address, subject=subject)
        run("office.list_mail", [{"from": "mailer-daemon", "text": f"550 5.1.1 {address}: user unknown"}], limit=1)


@stuck(told=7, refused=13)
def code_that_is_wrong(run: Run) -> None:
    """A code is sent to the customer and the same wrong one checked, again and again."""
    code = str(run.number(100000, 999999))
    for _ in range(15):
        run("pay.send_code", {"sent": True, "request": run.hex(10)}, customer="cus_77")
        run.fails("pay.check_code", {"verified": False, "error": "code does not match"}, customer="cus_77", code=code)


@stuck(told=3, refused=7)
def payment_created_again(run: Run) -> None:
    """The same payment is created again, under a new id each time; each waits for the customer."""
    amount = run.number(10, 900)
    for _ in range(24):
        answer = {"id": f"pi_{run.hex(20)}", "status": "requires_action"}
        run("pay.create_payment", answer, amount=amount, currency="eur", customer="cus_12")


@stuck(told=8, refused=None)
def hand_offs_with_reasons(run: Run) -> None:
    """Two agents hand the same task to each other, with another reason each time; neither works on it."""
    for number in range(28):
        run(f"team.transfer_to_{('writer', 'reviewer')[number % 2]}", "Transferred.", reason=run.prose(9))


@stuck(told=8, refused=18)
def agents_that_thank(run: Run) -> None:
    """Two agents thank each other without an end; the answer is one of three phrases."""
    phrases = ["You are welcome! Anything else?", "Glad to help. Anything else?", "My pleasure. Is there more?"]
    for _ in range(30):
        run("team.send_message", run.choice(*phrases), to="researcher", text="Thank you, that is all from my side.")


@stuck(told=7, refused=None)
def sources_invented(run: Run) -> None:
    """Documents are fetched by ids that the model made up; there are none."""
    for _ in range(28):
        run.fails("find.get_document", "404: no document with this id", id=f"doc-{run.hex(6)}")


@stuck(told=7, refused=None)
def more_of_the_same_passages(run: Run) -> None:
    """One question with ever higher limits; the index has four passages on it, and no more."""
    passages, question = [run.prose(30) for _ in range(4)], run.prose(6)
    for number in range(26):
        run("find.search_docs", passages, question=question, top_k=5 * (number + 1))


@stuck(told=6, refused=14)
def gripper_that_slips(run: Run) -> None:
    """A robot grasps at the same point and the part slips; only the force differs."""
    at = [run.number(100, 900) / 1000 for _ in range(3)]
    for _ in range(28):
        run("robot.grasp", {"grasped": False, "force_n": run.number(100, 2000) / 100}, ran=4, at=at)


@stuck(told=9, refused=18)
def illegal_moves(run: Run) -> None:
    """Three moves of chess that are not legal are tried in turn."""
    moves = run.rng.sample(["e2e5", "g1g3", "a1b3", "d1h6", "f1a5"], 3)
    for number in range(36):
        move = moves[number % 3]
        run.fails("game.move", f"Illegal move: {move}", move=move)


@stuck(told=7, refused=14)
def crafting_without_wood(run: Run) -> None:
    """A player crafts a table without wood, looks around, and tries again; the forest is next door."""
    view = f"You stand in a {run.word()} glade. North is a forest. Inventory: 1 stick."
    for _ in range(15):
        run("game.craft", "You need 3 wood to craft a table.", item="table")
        run("game.look", view)


@stuck(told=6, refused=16)
def folder_looked_at_fast(run: Run) -> None:
    """A folder is listed again and again, with no wait, for a file that nobody writes."""
    listing = sorted(run.file("csv") for _ in range(3))
    for _ in range(34):
        run("fs.list_directory", listing, path="incoming/")


@stuck(told=7, refused=14)
def server_without_tools(run: Run) -> None:
    """An MCP server is connected and its tools listed; there are none, so it is connected again."""
    for _ in range(16):
        run("mcp.open_server", {"connected": True, "session": run.hex(16)}, server="crm")
        run("mcp.list_tools", {"tools": []}, server="crm")


@stuck(told=5, refused=12)
def arguments_as_text(run: Run) -> None:
    """An MCP server wants an object and gets a text, with other blanks each time; the id of the error differs."""
    for number in range(28):
        text = f"MCP error -32602: Invalid arguments: expected object, received string (id {run.number(1, 9999)})"
        run.fails("mcp.get_customer", text, filter='{"name":' + " " * (number % 3 + 1) + '"x"}')


@stuck(told=9, refused=18)
def poison_message(run: Run) -> None:
    """A worker receives the same message under new receipts, fails at it, and receives it again."""
    body = run.prose(8)
    for _ in range(16):
        run("ops.receive_message", {"id": "m-1", "receipt": run.hex(24), "body": body}, queue="jobs")
        run.fails("sh.bash", "ValueError: time data does not match format", command=f"python work.py {body!r}")


@stuck(told=8, refused=15)
def fact_saved_and_recalled(run: Run) -> None:
    """The same fact is saved and recalled, again and again, and nothing follows from it."""
    fact = run.prose(9)
    for _ in range(15):
        run("mind.save_memory", {"saved": True, "id": run.hex(8)}, text=fact)
        run("mind.search_memory", [fact], query="preferences")
