"""Agents that work, or wait for good reason: browsers, offices, shops, homes, games, and other agents and people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam.trace import works

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


def listing(run: Run, count: int = 5) -> list[dict[str, object]]:
    """Draw some items."""
    return [{"id": run.number(1000, 99999), "title": run.prose(5)} for _ in range(count)]


@works()
def pages_by_token(run: Run) -> None:
    """Twenty-five pages by the token that the page before has given."""
    token = ""
    for _ in range(25):
        follows = run.hex(20)
        run("crm.list_tickets", {"tickets": listing(run, 3), "next_token": follows}, next_token=token)
        token = follows


@works()
def pages_by_number(run: Run) -> None:
    """Eighteen pages by their numbers; the last is empty."""
    for page in range(1, 19):
        run("crm.list_tickets", {"tickets": listing(run) if page < 18 else [], "page": page}, page=page, per_page=5)


@works()
def queue_worker(run: Run) -> None:
    """A message is received, worked on and acknowledged, thirty times, with some empty receives of 20 s each."""
    for number in range(30):
        if number % 9 == 8:
            for _ in range(3):
                run("ops.receive_message", {"messages": []}, ran=20, queue="jobs")
        body = run.prose(8)
        run("ops.receive_message", {"messages": [{"id": run.uuid(), "body": body}]}, queue="jobs")
        run("crm.create_ticket", {"ticket": f"T-{run.number(10000, 99999)}"}, title=body, number=number)


@works()
def sheet_filled(run: Run) -> None:
    """Sixty cells are set, each acknowledged in the same words, with a look at the rows between."""
    for row in range(1, 16):
        for column in "ABCD":
            run("office.set_cell", "Updated 1 cell", cell=f"{column}{row}", value=run.word())
        if row % 5 == 0:
            run("office.get_range", [[run.word() for _ in range(4)] for _ in range(row)], range="A1:D15")


@works()
def sheet_checked_after_writes(run: Run) -> None:
    """After each write the sum, by a formula elsewhere, is read; it stays zero until the last write."""
    for row in range(1, 11):
        run("office.set_cell", {"updatedCells": 1}, cell=f"B{row}", value=run.number(1, 99))
        run("office.get_range", [["0"]] if row < 10 else [["517"]], range="B11")


@works()
def load_more(run: Run) -> None:
    """ "Load more" is clicked and the page read, with more items each time."""
    items = [run.prose(5) for _ in range(6)]
    for _ in range(12):
        run("web.click", "Clicked element", element="button: Load more")
        items += [run.prose(5) for _ in range(6)]
        run("web.read_page", "\n".join(items))


@works()
def next_page_clicked(run: Run) -> None:
    """ "Next" is clicked and the page read, with other items each time."""
    for _ in range(14):
        run("web.click", "Clicked", selector="a[rel=next]")
        run("web.read_page", "\n".join(run.prose(6) for _ in range(5)))


@works()
def wizard(run: Run) -> None:
    """A form of seven steps: a field is filled and "Continue" clicked; the click shows the page that follows."""
    for step in range(1, 8):
        run("web.fill", "Filled", selector="#answer", text=run.word())
        run("web.click", f"Step {step + 1} of 8: {run.prose(6)}", selector="button.continue")


@works()
def out_and_back(run: Run) -> None:
    """Nine results are opened one by one; in between the agent goes back to the same list of results."""
    results = "\n".join(run.prose(6) for _ in range(9))
    run("web.open_page", results, url=run.url())
    for number in range(9):
        run("web.click", run.prose(50), element=f"result {number + 1}")
        run("web.go_back", results)


@works()
def tabs_closed_with_count(run: Run) -> None:
    """Eight tabs are closed; the answer counts them down."""
    for left in range(7, -1, -1):
        run("web.close_tab", f"Tab closed. {left} tabs open.")


@works(undecidable="a write whose repetition is the work, answered in the same words")
def tabs_closed_blind(run: Run) -> None:
    """Six tabs are closed; the answer is the same each time."""
    for _ in range(6):
        run("web.close_tab", {"success": True})
    run("web.read_page", run.prose(20))


@works()
def feed_scrolled_and_read(run: Run) -> None:
    """Two scrolls and a look, fifteen times; the scroll tells nothing, the look has new posts."""
    for _ in range(15):
        for _ in range(2):
            run("web.scroll", "Scrolled", direction="down", pixels=900)
        run("web.read_page", "\n".join(run.prose(9) for _ in range(4)))


@works()
def dead_links_in_one_message(run: Run) -> None:
    """Forty links are fetched in one message; many are dead, the first eight among them."""
    for number in range(40):
        url = f"{run.url()}/{number}"
        if number < 8 or run.rng.random() < 0.4:
            run.fails("net.fetch", "404 Not Found", ran=2, together=number > 0, url=url)
        else:
            run("net.fetch", run.prose(30), ran=2, together=number > 0, url=url)
    run("fs.write_file", "File written.", path="links.md", content=run.prose(50))


@works()
def old_links_checked(run: Run) -> None:
    """The links of an old page one by one: a third is gone, never more than three in a row."""
    for number in range(36):
        if number % 7 in (1, 2, 3):
            run.fails("net.fetch", "HTTP 404: Not Found", url=f"{run.url()}/{number}")
        else:
            run("net.fetch", run.prose(20), url=f"{run.url()}/{number}")


@works()
def price_watched(run: Run) -> None:
    """A price each five minutes for three hours; it moves four times."""
    price = run.number(80, 120)
    for look in range(36):
        price += run.choice(-1, 2) if look in (9, 17, 18, 30) else 0
        run("shop.get_price", {"sku": "KX-12", "price": price, "currency": "EUR"}, pause=300, sku="KX-12")


@works()
def approval_awaited(run: Run) -> None:
    """A human is to approve; the agent asks for the state each 30 s, 17 times."""
    request = run.number(100, 999)
    for _ in range(17):
        run("crm.get_approval", {"request": request, "state": "pending"}, pause=30, request=request)
    run("crm.get_approval", {"request": request, "state": "approved", "by": run.word()}, pause=30, request=request)


@works()
def reply_awaited_with_waits(run: Run) -> None:
    """Waits of a minute and looks into the mail box in turn, until the reply is there."""
    inbox = listing(run, 3)
    for _ in range(11):
        run("office.list_mail", inbox, folder="inbox", unread=True)
        run("sh.wait", "done", ran=60, seconds=60)
    run("office.list_mail", [*inbox, *listing(run, 1)], folder="inbox", unread=True)


@works()
def asked_before_each_step(run: Run) -> None:
    """The same question before each of nine steps is answered with yes; between is the step."""
    for step in range(9):
        run("user.ask_user", "yes", pause=3, ran=run.rng.uniform(5, 60), question="Shall I go on with the next step?")
        run("ops.apply", f"step {step} applied: {run.word()}", step=step)


@works()
def interview(run: Run) -> None:
    """Twelve questions to the user, many of which have the same short answer."""
    for _ in range(12):
        run(
            "user.ask_user",
            run.choice("no", "no", "yes", "I don't know"),
            ran=run.rng.uniform(4, 40),
            question=run.prose(9),
        )


@works()
def fan_out(run: Run) -> None:
    """Three rounds of eight sub-agents in one message; each answers with the same word."""
    for round_ in range(3):
        for number in range(8):
            task = f"{run.prose(12)} Part {round_}.{number}."
            run("team.delegate", "Done.", ran=run.rng.uniform(20, 90), together=number > 0, task=task)
        run("fs.list_directory", [run.file() for _ in range(8 + 8 * round_)], path="out")


@works()
def writer_and_reviewer(run: Run) -> None:
    """A writer and a reviewer hand over to each other six times; between are a draft and its review."""
    for version in range(6):
        run("fs.write_file", "File written.", path="draft.md", content=run.prose(60))
        run("team.transfer_to_reviewer", "Transferred to reviewer. Adopt persona immediately.")
        run("fs.read_file", run.prose(60), path="draft.md")
        run("crm.create_ticket", {"comment": run.number(1, 10**6)}, body=run.prose(20), version=version)
        run("team.transfer_to_writer", "Transferred to writer. Adopt persona immediately.")


@works()
def facts_remembered(run: Run) -> None:
    """Twenty-five facts are saved, each answered with ok."""
    for _ in range(25):
        run("mind.save_memory", "ok", text=run.prose(12))


@works()
def same_memory_before_each_answer(run: Run) -> None:
    """The preferences of the user are recalled before each of six parts of the work; they are the same."""
    facts = [{"text": run.prose(8)} for _ in range(3)]
    for _ in range(6):
        run("mind.search_memory", facts, query="preferences of the user")
        run("fs.write_file", "File written.", path=run.file("md"), content=run.prose(40))


@works()
def rooms_of_a_house(run: Run) -> None:
    """The lights of twelve rooms are set, and each state is read back."""
    for number in range(12):
        room = f"{run.word()}-{number}"
        run("home.set_light", {"success": True}, room=room, brightness=40)
        run("home.get_state", {"state": "on", "brightness": 40}, room=room)


@works()
def shutter_in_steps(run: Run) -> None:
    """A shutter is moved step by step; the answer is the position."""
    for step in range(1, 11):
        run("home.move", {"position": 100 - 10 * step}, entity="shutter", by=-10)


@works()
def washing_machine(run: Run) -> None:
    """The agent looks each two minutes until the washing machine is done."""
    for _ in range(22):
        run("home.get_state", {"entity": "washer", "state": "rinsing"}, pause=120, entity="washer")
    run("home.get_state", {"entity": "washer", "state": "idle"}, pause=120, entity="washer")


@works()
def maze(run: Run) -> None:
    """A maze: the same four moves, new rooms, and now and then three known ones on the way back."""
    rooms = [run.prose(10) for _ in range(30)]
    for number in range(0, 30, 5):
        for room in rooms[number : number + 5]:
            run("game.move", room, direction=run.choice("north", "east"))
        for room in rooms[number + 3 : number : -1]:
            run("game.move", room, direction=run.choice("south", "west"))


@works()
def sliding_tiles(run: Run) -> None:
    """The game of 2048: four moves, another board each time."""
    for _ in range(40):
        board = [[run.choice(0, 2, 4, 8, 16) for _ in range(4)] for _ in range(4)]
        run("game.move", {"board": board}, direction=run.choice("left", "down", "right"))


@works()
def undo_and_redo(run: Run) -> None:
    """Four steps are undone and three redone to find a change; each answer is the document, known by then."""
    versions = [run.prose(30) for _ in range(5)]
    for version in versions:
        run("office.get_range", version, range=run.name())
    for version in reversed(versions[:4]):
        run("office.undo", version)
    for version in versions[1:4]:
        run("office.redo", version)
    run("fs.write_file", "File written.", path="doc.md", content=run.prose(30))


@works()
def keys_with_looks(run: Run) -> None:
    """Down is pressed four times between two looks at the list, eight times."""
    for _ in range(8):
        for _ in range(4):
            run("web.press_key", "Pressed", key="ArrowDown")
        run("web.screenshot", run.image())


@works()
def upload_watched(run: Run) -> None:
    """A screenshot each ten seconds while a large file goes up; no two are equal."""
    for _ in range(20):
        run("web.screenshot", run.image(), pause=10)


@works()
def busy_people(run: Run) -> None:
    """The calendars of ten people for three days; most are busy."""
    for day in range(3):
        for number in range(10):
            free = run.rng.random() < 0.2
            run(
                "office.check_calendar",
                {"status": "free" if free else "busy"},
                person=f"p{number}@corp.example",
                day=f"2026-06-{day + 1:02d}",
            )


@works()
def customers_verified(run: Run) -> None:
    """A desk: each of eight customers is looked up, changed, and looked up again."""
    for number in range(8):
        customer, name = f"user_{run.word()}_{number}", run.word()
        run("crm.get_customer", {"id": customer, "name": name, "tier": "basic"}, user_id=customer)
        run("crm.set_customer", "ok", user_id=customer, tier="pro")
        run("crm.get_customer", {"id": customer, "name": name, "tier": "pro"}, user_id=customer)


@works()
def payment_link_polled(run: Run) -> None:
    """A customer pays meanwhile: a look each 15 s into an order that is "awaiting_payment"."""
    order = run.number(10**4, 10**5)
    for _ in range(12):
        run("crm.get_status", {"order": order, "payment": "awaiting_payment"}, pause=15, order=order)
    run("crm.get_status", {"order": order, "payment": "paid"}, pause=15, order=order)


@works()
def ids_only(run: Run) -> None:
    """A tool that makes a ticket answers with nothing but the id; twenty tickets of the same template."""
    for number in range(20):
        run("crm.create_ticket", {"id": run.uuid()}, title="Onboarding", employee=f"{run.word()}.{number}")
