"""The loop of the store: one in a process, whoever asks, which starts with its first use and ends with the program."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading

import pytest

from otel_loopguard.store import background

_VARIABLE = contextvars.ContextVar("variable", default="none")


async def current():
    return threading.current_thread().name, asyncio.get_running_loop()


def test_a_coroutine_runs_on_the_loop_and_its_result_comes_back():
    assert background.wait(current()) == ("loopguard-store", background.loop())


def test_all_threads_use_one_loop(monkeypatch):
    monkeypatch.setattr(background, "_running", {})
    ready, used = threading.Barrier(8), []

    def work():
        ready.wait()
        used.append(background.loop())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(used)) == 1
    stop(used[0])


def stop(loop):
    loop.call_soon_threadsafe(loop.stop)
    loop.thread.join()


def test_a_signal_handler_that_strikes_while_the_loop_is_made_uses_the_same(monkeypatch):
    monkeypatch.setattr(background, "_running", {})
    start, handler = threading.Thread.start, []

    def struck(thread):
        start(thread)
        if not handler:
            handler.append(None)
            handler.append(background.loop())

    monkeypatch.setattr(threading.Thread, "start", struck)
    assert background.loop() is handler[1]
    stop(handler[1])


def test_a_function_finds_no_context_variable_of_the_program():
    """Else its spans would be in the program's traces."""
    _VARIABLE.set("the program's")
    found, done = [], threading.Event()
    assert background.soon(lambda: (found.append(_VARIABLE.get()), done.set()))
    done.wait(20)
    assert found == ["none"]


def test_the_log_has_no_text_of_an_exception(caplog):
    def fail():
        raise ArithmeticError("SECRET")

    background.soon(fail)
    background.wait(current())
    assert "ArithmeticError in test_background.py" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_pause_ends_by_itself():
    assert background.wait(background.pause(0.01)) is True


def test_what_nobody_uses_any_more_is_closed_on_the_loop():
    class Owner:
        """Has something to be closed."""

    closed = threading.Event()

    async def close():
        assert asyncio.get_running_loop() is background.loop()
        closed.set()

    async def main():
        owner = Owner()
        background.close_with(owner, close)
        assert close in background.loop().closers

    background.wait(main())
    gc.collect()
    assert closed.wait(20)
    assert close not in background.loop().closers


def test_a_child_process_has_a_loop_of_its_own():
    before = background.loop()
    child = os.fork()
    if child == 0:
        fine = background.wait(current()) == ("loopguard-store", background.loop())
        os._exit(0 if fine and background.loop() is not before and before.is_closed() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert background.wait(current())[1] is before


def run(code):
    """Run a program to its end, and return what it printed."""
    start = "import asyncio, atexit, socket, threading\n"
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", start + code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


IMPORT = "from otel_loopguard.store import background\n"


def test_the_end_of_the_program_ends_pauses_for_a_last_try():
    code = """
async def later():
    while await background.pause(3600):
        print("never")
    print("last", await background.pause(3600))

background.soon(lambda: background.loop().create_task(later()))
"""
    assert run(IMPORT + code) == ["last", "False"]


@pytest.mark.parametrize("task", ["asyncio.sleep(3600)", "background.loop().getaddrinfo('name', 1)"])
def test_the_end_of_the_program_waits_for_no_task_that_hangs(task):
    """As a look-up of a name, which cannot be cancelled."""
    code = f"""
def hang(*_, **__):
    threading.Event().wait()

socket.getaddrinfo = hang
begun = threading.Event()
background.soon(lambda: (background.loop().create_task({task}), background.loop().call_later(0.01, begun.set)))
begun.wait()
"""
    assert run(IMPORT + code) == []


def test_after_the_end_nothing_is_called():
    code = f"""
atexit.register(lambda: print(background.soon(print, "called")))
{IMPORT}
background.wait(background.pause(0))
"""
    assert run(code) == ["False"]


def test_the_end_of_a_child_process_tells_nothing_of_the_tasks_of_its_parent():
    code = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
background.soon(lambda: background.loop().create_task(background.pause(3600)))
background.wait(background.pause(0))
if os.fork() == 0:
    sys.exit(0)
os.wait()
"""
    assert run(IMPORT + code) == []
