"""Agents that are stuck: browsers, offices, shops, homes, games, and other agents and people.

``told`` and ``refused`` are calls counted from 1, as a careful human who reads along would set them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam.trace import stuck

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


@stuck(told=9, refused=18)
def clicks_by_position(run: Run) -> None:
    """The same point is clicked, and the page is the same as before."""
    page = "\n".join(run.prose(6) for _ in range(6))
    for _ in range(16):
        run("web.click", "Clicked at (512, 384)", x=512, y=384)
        run("web.read_page", page)


@stuck(told=10, refused=20)
def sign_in_redirects(run: Run) -> None:
    """The dashboard leads to the form for signing in, which leads to the dashboard, which leads to the form."""
    form = f"Sign in\n{run.prose(20)}"
    for _ in range(12):
        run("web.open_page", form, url="https://app.example/dashboard")
        run("web.fill", "Filled", selector="#password", text="********")
        run("web.click", form, selector="button[type=submit]")


@stuck(told=7, refused=None)
def pages_beyond_the_last(run: Run) -> None:
    """Three pages have tickets, all after them are empty; the agent goes on."""
    for page in range(1, 30):
        tickets = [{"id": run.number(1, 9999), "title": run.prose(4)} for _ in range(5)] if page <= 3 else []
        run("crm.list_tickets", {"tickets": tickets, "total": 15}, page=page)


@stuck(told=4, refused=9)
def cursor_that_does_not_move(run: Run) -> None:
    """The answer names the cursor that was asked with as the next one."""
    cursor = run.hex(16)
    page = {"items": [{"id": run.number(1, 9999), "title": run.prose(4)} for _ in range(4)], "next_cursor": cursor}
    for _ in range(30):
        run("crm.list_tickets", page, cursor=cursor)


@stuck(told=10, refused=None)
def passages_for_other_words(run: Run) -> None:
    """A question in other words each time, for which the same long passages come back."""
    passages = [{"text": run.prose(60), "score": 0.71} for _ in range(3)]
    for _ in range(30):
        run("find.search_docs", passages, query=run.prose(7))


@stuck(told=9, refused=18)
def search_open_search(run: Run) -> None:
    """A search, its first hit, the same search with a filter, its first hit: always the same page."""
    url, page, hits = run.url(), run.prose(80), [{"title": run.prose(5), "url": run.url()}]
    for _ in range(10):
        run("find.search", hits, query="annual report 2025")
        run("net.fetch", page, url=url)
        run("find.search", hits, query="annual report 2025 pdf")
        run("net.fetch", page, url=url)


@stuck(told=9, refused=20)
def flag_switched(run: Run) -> None:
    """A flag is switched on and off; the state is read after each."""
    for lap in range(20):
        on = lap % 2 == 0
        run("ops.set_flag", "ok", flag="new-checkout", enabled=on)
        run("ops.get_flag", {"flag": "new-checkout", "enabled": on}, flag="new-checkout")


@stuck(told=5, refused=12)
def order_placed_again(run: Run) -> None:
    """The same order is placed again, each under a new number; the cart is looked at in between."""
    cart = {"items": [{"sku": "B-77", "quantity": 2}], "total": 58.0}
    for _ in range(14):
        run("shop.place_order", {"order_id": run.uuid(), "status": "confirmed"}, sku="B-77", quantity=2)
        run("shop.get_cart", cart)


@stuck(told=4, refused=10)
def card_declined(run: Run) -> None:
    """A declined card is charged again; the number of the decline differs."""
    for _ in range(30):
        text = {
            "error": {"code": "card_declined", "decline_id": f"dec_{run.hex(14)}", "message": "The card was declined."}
        }
        run.fails("shop.charge_order", text, amount=4900, customer="cus_12")


@stuck(told=6, refused=12)
def three_agents_in_a_ring(run: Run) -> None:
    """Triage hands over to billing, billing to refunds, refunds to triage; none works."""
    for _ in range(14):
        for agent in ("billing", "refunds", "triage"):
            run(f"team.transfer_to_{agent}", f"Transferred to {agent}.")


@stuck(told=7, refused=14)
def thinking_the_same(run: Run) -> None:
    """The same thought is recorded again and again."""
    thought = run.prose(30)
    for _ in range(30):
        run("mind.think", "Your thought has been logged.", thought=thought)


@stuck(told=14, refused=None)
def thinking_in_other_words(run: Run) -> None:
    """Thought after thought is recorded, and none leads to a call."""
    for _ in range(35):
        run("mind.think", "Your thought has been logged.", thought=run.prose(20))


@stuck(told=4, refused=10)
def delegated_again(run: Run) -> None:
    """The same task goes to a sub-agent again, which answers the same each time."""
    task = run.prose(15)
    for _ in range(30):
        run("team.delegate", "I could not find the file that you named.", ran=run.rng.uniform(15, 60), task=task)


@stuck(told=9, refused=None)
def delegated_again_other_answers(run: Run) -> None:
    """The same task goes to a sub-agent again; its failure is told in other words each time."""
    task = run.prose(15)
    for _ in range(30):
        run("team.delegate", f"I could not do it. {run.prose(15)}", ran=run.rng.uniform(15, 60), task=task)


@stuck(told=6, refused=None, undecidable="tickets with other texts and new numbers; only their meaning is the same")
def ticket_in_other_words(run: Run) -> None:
    """The same complaint becomes a ticket again and again, in other words."""
    for _ in range(30):
        run("crm.create_ticket", {"id": f"T-{run.number(10000, 99999)}"}, title=run.prose(5), body=run.prose(25))


@stuck(told=3, refused=8)
def ticket_twice(run: Run) -> None:
    """The same ticket is created again, under a new number each time."""
    title, body = run.prose(5), run.prose(25)
    for _ in range(30):
        run("crm.create_ticket", {"id": run.number(10000, 99999), "created_at": run.clock()}, title=title, body=body)


@stuck(told=7, refused=14)
def ticket_and_list(run: Run) -> None:
    """A ticket is created with the same text; the cached list does not show it, so it is created again."""
    tickets = [{"id": run.number(1, 999), "title": run.prose(4)} for _ in range(3)]
    title = run.prose(5)
    for _ in range(14):
        run("crm.create_ticket", {"id": run.number(10000, 99999), "status": "open"}, title=title)
        run("crm.list_tickets", {"tickets": tickets})


@stuck(told=4, refused=8)
def permission_asked_again(run: Run) -> None:
    """The user is asked the same and says no each time."""
    question = run.prose(8)
    for _ in range(30):
        run("user.ask_user", "No, please do not do that.", ran=run.rng.uniform(5, 30), question=question)


@stuck(told=8, refused=20)
def mail_looked_for(run: Run) -> None:
    """The inbox is looked into each three seconds for a reply; there are no other calls."""
    inbox = [{"from": f"{run.word()}@corp.example", "subject": run.prose(4)} for _ in range(2)]
    for _ in range(45):
        run("office.list_mail", inbox, pause=3, folder="inbox")


@stuck(told=12, refused=None, undecidable="no two pictures are equal, whatever they show")
def screenshots_of_one_page(run: Run) -> None:
    """A screenshot of the same page again and again; a clock in its corner moves."""
    for _ in range(30):
        run("web.screenshot", run.image())


@stuck(told=8, refused=16)
def slots_in_turn(run: Run) -> None:
    """Three slots are tried in turn; each is in conflict, as before."""
    for _ in range(12):
        for hour in (9, 11, 15):
            run.fails("office.create_calendar", "409 Conflict: an attendee is busy", start=f"2026-06-03T{hour:02d}:00")


@stuck(told=8, refused=None)
def memory_with_other_limits(run: Run) -> None:
    """One search of the memory; only the limit differs."""
    found = [{"text": run.prose(10), "score": 0.62} for _ in range(3)]
    for number in range(30):
        run("mind.search_memory", found, query="address of the office", limit=5 + number)


@stuck(told=10, refused=24)
def light_that_is_broken(run: Run) -> None:
    """A light is turned on, and its state is unavailable; again and again."""
    for _ in range(16):
        run("home.set_light", {"success": True}, room="hall", state="on")
        run("home.get_state", {"state": "unavailable"}, entity="light.hall")


@stuck(told=5, refused=12)
def locked_door(run: Run) -> None:
    """The player pushes a locked door and looks around, again and again."""
    room = run.prose(25)
    for _ in range(18):
        run("game.move", "The door is locked.", direction="north")
        run("game.look", room)


@stuck(told=16, refused=32)
def around_the_block(run: Run) -> None:
    """Four moves lead back to where the player was; it goes round and round."""
    rooms = [run.prose(12) for _ in range(4)]
    for _ in range(14):
        for room, direction in zip(rooms, ("north", "east", "south", "west"), strict=True):
            run("game.move", room, direction=direction)


@stuck(told=6, refused=14)
def page_reloaded(run: Run) -> None:
    """A page of errors is opened again and again; a number in it is new each time."""
    for _ in range(20):
        run("web.open_page", f"Something went wrong.\nError reference: {run.uuid()}", url="https://app.example/export")


@stuck(told=8, refused=16)
def scrolling_at_the_end(run: Run) -> None:
    """The end of the page is reached; it is scrolled and read on."""
    page = "\n".join(run.prose(7) for _ in range(5))
    for _ in range(16):
        run("web.scroll", "Scrolled by 800 pixels", direction="down")
        run("web.read_page", page)


@stuck(told=10, refused=20)
def plan_written_again(run: Run) -> None:
    """The same plan is written and read, and no task of it begun."""
    todos = [{"task": run.prose(4), "status": "pending"} for _ in range(3)]
    for _ in range(14):
        run("mind.write_todos", "Todo list updated.", todos=todos)
        run("mind.read_todos", todos)


@stuck(told=6, refused=12)
def customer_not_found(run: Run) -> None:
    """Three spellings of one customer in turn; none is found."""
    names = [run.name() for _ in range(3)]
    for number in range(30):
        run.fails("crm.get_customer", "Error: customer not found", user_id=names[number % 3])


@stuck(told=6, refused=None)
def addresses_guessed(run: Run) -> None:
    """Addresses of one site are made up; each is a 404."""
    for number in range(30):
        run.fails("net.fetch", "HTTP 404: Not Found", url=f"https://docs.example/{run.word()}/{run.word()}-{number}")


@stuck(told=8, refused=None)
def range_read_beyond_the_data(run: Run) -> None:
    """A sheet ends at row 200; the agent reads on in ranges of 50 rows."""
    for start in range(1, 2000, 50):
        values = [[run.word(), run.number(1, 99)] for _ in range(3)] if start < 200 else []
        run("office.get_range", {"values": values}, range=f"A{start}:C{start + 49}")
