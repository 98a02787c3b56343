"""Agents that work, or wait for good reason, drawn anew and without a look at the rule, from practice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam.trace import works

if TYPE_CHECKING:
    from benchmarks.exam.trace import Run


@works()
def matrix_of_jobs(run: Run) -> None:
    """A build with six jobs is looked at each half minute; they end one by one, some after several equal looks."""
    build = run.number(1000, 9999)
    for done in range(7):
        for _ in range(run.number(1, 5) if done < 6 else 1):
            state = "completed" if done == 6 else "in_progress"
            run("ci.get_run", {"run": build, "status": state, "jobs_done": f"{done}/6"}, wait=30, run_id=build)


@works()
def flaky_tests_run_thrice(run: Run) -> None:
    """Seven tests that fail now and then are run three times each on the user's wish; some fail, some do not."""
    for test in run.words(7):
        for _ in range(3):
            text = run.choice("1 passed", "1 passed", f"FAILED {test} - TimeoutError\n1 failed")
            run("sh.bash", f"{text} in {run.number(100, 900) / 100}s", command=f"pytest -k {test}")


@works()
def many_edits_of_one_file(run: Run) -> None:
    """A long file is rewritten in 25 edits, each acknowledged in the same words."""
    path = run.file("go")
    for _ in range(25):
        run("fs.edit_file", "The file has been updated.", path=path, old=run.lines(2), new=run.lines(3))


@works()
def errors_of_the_compiler(run: Run) -> None:
    """The compiler's count of errors goes from nine to zero; some edits change nothing about it."""
    path, count = run.file("rs"), 9
    while count:
        run("fs.edit_file", "The file has been updated.", path=path, old=run.lines(1), new=run.lines(1))
        run.fails("sh.bash", f"error: could not compile `core` due to {count} previous errors", command="cargo check")
        count -= run.choice(0, 1, 1, 2) if count > 1 else 1
    run("sh.bash", "Finished `dev` profile", command="cargo check")


@works()
def unused_symbols(run: Run) -> None:
    """Forty functions are searched for to find dead code; most are used nowhere, and that is what is asked."""
    for number in range(40):
        used = number % 11 == 6
        run(
            "fs.grep",
            f"{run.file()}:{number}: {run.lines(1)}" if used else "No matches found",
            pattern=f"{run.name()}(",
        )


@works()
def server_that_starts(run: Run) -> None:
    """A server is started and asked each three seconds until it answers, after each of three changes."""
    for _ in range(3):
        run("fs.edit_file", "The file has been updated.", path="server.py", old=run.lines(1), new=run.lines(1))
        run("sh.bash", f"[1] {run.number(1000, 9999)}", command="python server.py &")
        for _ in range(run.number(3, 5)):
            run.fails("sh.bash", "curl: (7) Failed to connect to localhost", wait=3, command="curl -s localhost:8080")
        run("sh.bash", f"<h1>{run.prose(4)}</h1>", wait=3, command="curl -s localhost:8080")


@works()
def status_before_each_commit(run: Run) -> None:
    """Before each of nine topics the tree is found clean; then come an edit and a commit."""
    for _ in range(9):
        run("sh.bash", "nothing to commit, working tree clean", command="git status")
        run("fs.edit_file", "The file has been updated.", path=run.file(), old=run.lines(1), new=run.lines(1))
        run("sh.bash", f"[main {run.hex(7)}] {run.prose(4)}", command=f"git commit -am {run.prose(4)!r}")


@works()
def offers_compared(run: Run) -> None:
    """Three offers are opened, and each opened once more to compare, before the best is put into the cart."""
    offers = {run.url(): run.prose(25) for _ in range(3)}
    for _ in range(2):
        for url, text in offers.items():
            run("web.open_page", text, url=url)
    run("web.click", "Added to cart", element="Add to cart")


@works()
def consent_on_each_site(run: Run) -> None:
    """Fourteen sites are opened and read; on each the same banner is clicked away first."""
    for _ in range(14):
        run("web.open_page", "Navigated.", url=run.url())
        run("web.click", "Clicked element 1", text="Accept all")
        run("web.read_page", run.prose(30))


@works()
def policy_before_each_case(run: Run) -> None:
    """The rules for refunds are read before each of nine cases; between are the order and the answer."""
    rules = run.prose(50)
    for _ in range(9):
        order = f"#W{run.number(10**6, 10**7)}"
        run("shop.get_order", {"order": order, "total": run.number(5, 500)}, order=order)
        run("find.search_docs", rules, query="refund rules")
        run("crm.send_message", {"sent": True}, order=order, text=run.prose(12))


@works()
def haggling(run: Run) -> None:
    """A person is offered one price after the other, and says no in the same words to most."""
    for price in range(950, 550, -40):
        answer = "Too expensive." if price > 600 else "All right, I take it."
        run("user.ask_user", answer, ran=run.rng.uniform(8, 60), question=f"Would you take it for {price} euros?")


@works()
def customer_away(run: Run) -> None:
    """A customer looks for a number meanwhile; the chat is read each 40 s until it comes."""
    for _ in range(10):
        run("crm.get_messages", {"messages": []}, wait=40, chat="c-4", after=71)
    run("crm.get_messages", {"messages": [{"id": 72, "text": run.prose(5)}]}, wait=40, chat="c-4", after=71)


@works()
def addresses_that_are_unknown(run: Run) -> None:
    """Fifty addresses of a list are looked up; all but three are not customers, as the user expects."""
    for number in range(50):
        mail = f"{run.name()}@{run.word()}.example"
        found = {"id": run.hex(8), "mail": mail} if number in (4, 30, 47) else None
        run("crm.get_customer", found, email=mail)


@works()
def deleted_in_portions(run: Run) -> None:
    """Old rows are deleted in portions of 1,000 by the same statement, until a portion is smaller."""
    sql = "DELETE FROM events WHERE ctid IN (SELECT ctid FROM events WHERE day < '2025-01-01' LIMIT 1000)"
    for _ in range(run.number(9, 13)):
        run("db.query", "DELETE 1000", ran=6, sql=sql)
    run("db.query", f"DELETE {run.number(1, 999)}", ran=4, sql=sql)


@works()
def refresh_awaited(run: Run) -> None:
    """A refresh takes a quarter of an hour; its state is queried each minute."""
    for look in range(15):
        run("db.query", [["running" if look < 14 else "done"]], wait=60, sql="SELECT state FROM refreshes WHERE id = 8")


@works()
def nodes_drained(run: Run) -> None:
    """Six nodes are drained one by one; the same list of pods is looked at in between until it is whole again."""
    for node in run.words(6):
        run("sh.bash", f"node/{node} drained", ran=20, command=f"kubectl drain {node}")
        for ready in (4, 4, 5):
            run("ops.list_pods", f"{ready}/5 pods are Running", wait=10, namespace="web")


@works()
def gateway_after_each_deploy(run: Run) -> None:
    """Twelve services are deployed; after each the same gateway is found healthy."""
    for service in run.words(12):
        run("ops.apply", f"deployment.apps/{service} configured", ran=12, manifest=f"{service}.yaml")
        run("ops.check_health", {"healthy": True}, service="gateway")


@works()
def error_rate_watched(run: Run) -> None:
    """During an incident the rate of errors is read each minute for half an hour; it moves slowly, in steps."""
    rate = 12
    for _ in range(30):
        rate = max(0, rate - run.choice(0, 0, 1, 1))
        run("ops.get_metric", {"metric": "error_rate", "percent": rate}, wait=60, query="errors")


@works()
def certificate_issued(run: Run) -> None:
    """A certificate is pending for four minutes; the agent waits 30 s by a tool and looks."""
    for look in range(9):
        run("sh.wait", "Waited 30 seconds.", ran=30, seconds=30)
        run("ops.get_status", {"certificate": "issued" if look == 8 else "pending validation"}, certificate="web")


@works()
def backoff_thrice(run: Run) -> None:
    """Three uploads meet a server that is overloaded: each is tried again after 2, 4, 8, 16 and 32 s, then is done."""
    for path in (run.file("zip") for _ in range(3)):
        for wait in (0, 2, 4, 8, 16):
            run.fails(
                "net.fetch", "503 Service Unavailable", wait=wait, method="PUT", url=f"https://files.example/{path}"
            )
        run("net.fetch", f"201 Created, etag {run.hex(10)}", wait=32, method="PUT", url=f"https://files.example/{path}")


@works()
def rate_limit_obeyed(run: Run) -> None:
    """Twenty pages; before each third the server asks for a minute, which the agent keeps to."""
    for page in range(1, 21):
        if page % 3 == 0:
            run.fails("crm.list_tickets", "429 Too Many Requests. Retry after 60 seconds.", page=page)
        wait = 60 if page % 3 == 0 else 0
        run("crm.list_tickets", [{"id": run.number(1, 10**6), "title": run.prose(4)}], wait=wait, page=page)


@works()
def on_hold(run: Run) -> None:
    """A voice agent is on hold for six minutes; it listens for half a minute at a time until somebody is there."""
    for _ in range(12):
        run("voice.listen", {"transcript": "", "music": True}, ran=30)
    run("voice.listen", {"transcript": f"Hello, this is {run.word()}."}, ran=5)


@works()
def each_item_confirmed(run: Run) -> None:
    """A voice agent reads an order aloud item by item; the caller says yes to each."""
    for item in run.words(10):
        run("voice.say", "ok", text=f"{run.number(1, 9)} times {item}, is that right?")
        run("voice.listen", {"transcript": "yes"}, ran=3)


@works()
def price_ticker(run: Run) -> None:
    """A price is read each 20 s for a limit; it moves at two looks of three."""
    cents = run.number(9000, 11000)
    for _ in range(40):
        cents += run.choice(-3, 0, 2)
        run("trade.get_price", {"symbol": "ACME", "last": cents / 100}, wait=20, symbol="ACME")


@works()
def battery_charging(run: Run) -> None:
    """A battery is looked at each five minutes; it gains a percent at most looks, and is full at the end."""
    percent = 80
    while percent <= 100:
        run("home.get_state", {"battery": percent, "charging": percent < 100}, wait=300, entity="car")
        percent += run.choice(0, 1, 1)


@works()
def mails_of_one_template(run: Run) -> None:
    """Thirty invitations are sent to thirty people, each acknowledged in the same words."""
    text = run.prose(20)
    for _ in range(30):
        run("office.send_mail", {"state": "queued"}, to=f"{run.name()}@mail.example", subject="Invitation", text=text)


@works()
def payment_settles(run: Run) -> None:
    """A payment is processing for some minutes, and looked at each 20 s."""
    payment = f"py_{run.hex(16)}"
    for look in range(10):
        run(
            "pay.get_payment",
            {"id": payment, "status": "succeeded" if look == 9 else "processing"},
            wait=20,
            id=payment,
        )


@works()
def four_sub_agents_awaited(run: Run) -> None:
    """Four sub-agents work; their states are asked for in turn each 25 s, until all have a result."""
    due = {f"task-{number}": run.number(2, 7) for number in range(4)}
    for lap in range(8):
        for task, end in due.items():
            if lap <= end:
                result = {"state": "done", "result": run.prose(10)} if lap == end else {"state": "running"}
                run("team.get_task", result, wait=25 if task == min(due) else 0, task=task)


@works()
def drafts_sent_back(run: Run) -> None:
    """Seven drafts, each another, go to a reviewer, who asks for a shorter one in the same words until the last."""
    for number in range(7):
        run("fs.write_file", "File written.", path="draft.md", content=run.prose(80 - 9 * number))
        run(
            "team.send_message",
            "Approved." if number == 6 else "Too long, please shorten.",
            to="reviewer",
            text="Review draft.md",
        )


@works()
def a_search_for_each_claim(run: Run) -> None:
    """Twenty claims of a text are checked by a search each; the same two passages come back for many."""
    passages = [run.prose(40) for _ in range(3)]
    for number in range(20):
        run("find.search_docs", passages[:2] if number % 4 else [run.prose(40), passages[2]], query=run.prose(8))


@works()
def robot_drives(run: Run) -> None:
    """A robot drives by the same command; its place differs each time, but for people in its way now and then."""
    metres = 0.0
    for _ in range(24):
        blocked = run.rng.random() < 0.25
        metres += 0 if blocked else 0.5
        run("robot.move", {"blocked": blocked, "x": metres}, ran=3, forward=0.5)


@works()
def monster_fought(run: Run) -> None:
    """A player attacks until the monster is dead; many blows miss, in the same words."""
    life = 20
    while life > 0:
        hit = run.choice(0, 0, 2, 3)
        life -= hit
        run("game.attack", f"You hit the troll. It has {max(life, 0)} life." if hit else "You miss.", target="troll")


@works()
def fishing(run: Run) -> None:
    """A player waits for a bite by the same command; now and then there is a fish."""
    for _ in range(4):
        for _ in range(run.number(1, 5)):
            run("game.wait", "Nothing bites.", ran=10)
        run("game.wait", f"You catch a {run.word()} of {run.number(100, 4000)} g.", ran=10)


@works()
def parts_placed(run: Run) -> None:
    """A robot grasps at the same place and puts eighteen parts into eighteen slots; both answer the same."""
    for slot in range(18):
        run("robot.grasp", {"grasped": True}, ran=4, at=[0.4, 0.0, 0.1])
        run("robot.place", {"placed": True}, ran=4, slot=slot)


@works()
def folder_watched(run: Run) -> None:
    """A folder is listed each half minute; a file comes after some equal looks, is read, and the next awaited."""
    there: list[str] = []
    for _ in range(4):
        for _ in range(run.number(2, 7)):
            run("fs.list_directory", list(there), wait=30, path="inbox/")
        there.append(run.file("xml"))
        run("fs.list_directory", list(there), wait=30, path="inbox/")
        run("fs.read_file", run.lines(8), path=there[-1])


@works()
def quiet_queue(run: Run) -> None:
    """A worker receives with long polls of 20 s; the queue is empty for five minutes, then a message comes."""
    for _ in range(16):
        run("ops.receive_message", {"messages": []}, ran=20, queue="orders", wait_seconds=20)
    run("ops.receive_message", {"messages": [{"id": run.uuid()}]}, ran=7, queue="orders", wait_seconds=20)
