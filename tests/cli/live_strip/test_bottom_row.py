"""The last row of a terminal, and a program that uses the others as it likes."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.cli.screens import Screen

from .programs import BESIDE, beside

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals on Windows")


def assert_nothing_is_left(screen):
    """No row has the strip, and the whole screen scrolls again."""
    assert "loopguard" not in "".join(screen.lines)
    assert screen.screen.margins is None


def test_the_lines_of_the_program_are_all_there_in_order(tmp_path):
    """They scroll above the strip; at the end it is gone, and the output after it follows the last line."""
    text = "import time\nfor n in range(40):\n    print('line', n)\n    call()\n    time.sleep(0.02)\ninput()"
    printed = [f"line {n}" for n in range(40)]
    with beside(tmp_path, text) as screen:
        screen.until_last_row("look x40 | 40 calls")
        assert [line for line in screen.lines if "loopguard" not in line] == printed
        screen.type("\n")
        assert screen.until_end() == 0
    assert screen.lines == [*printed, "ended with 0"]
    assert_nothing_is_left(screen)


def test_a_line_that_is_written_in_pieces_stays_one_line(tmp_path):
    """A model's answer comes word by word, while calls end."""
    text = "for n in range(9):\n    print(n, end=' ', flush=True)\n    call()\n    input()"
    with beside(tmp_path, text) as screen:
        for n in range(9):
            screen.until_last_row(f"{n + 1} call")
            assert f"{n} " in screen.screen.display[n]
            screen.type("\n")
        assert screen.until_end() == 0
    assert screen.lines == [*map(str, range(9)), "ended with 0"]


def test_an_empty_program_on_a_full_screen_moves_up(tmp_path):
    """If the cursor is in the last row at the first call, this row moves up, and none is lost."""
    text = "print(*range(11), sep='\\n')\nprint('prompt', end=' ', flush=True)\ncall()\nprint(input())"
    with beside(tmp_path, text) as screen:
        screen.until_last_row("1 call")
        assert screen.rows[-2] == "prompt"
        screen.type("Ada\n")
        screen.until_end()
    assert screen.lines == [*map(str, range(11)), "prompt Ada", "Ada", "ended with 0"]


def test_input_is_typed_beside_its_prompt(tmp_path):
    """The cursor is where the program left it."""
    with beside(tmp_path, "call()\nprint('hello', input('name? '))\ncall()\ninput()") as screen:
        screen.until_last_row("1 call")
        screen.until(lambda: screen.rows[0] == "name?")
        assert (screen.screen.cursor.x, screen.screen.cursor.y) == (6, 0)
        screen.type("Ada\n")
        screen.until_last_row("2 calls")
        assert screen.rows[:2] == ["name? Ada", "hello Ada"]


def test_a_progress_bar_stays_in_its_row(tmp_path):
    """It returns to the begin of its row again and again, and uses colours, which the strip does not take."""
    text = (
        "import time\nfor n in range(30):\n    print(f'\\r\\x1b[32m{\"#\" * n}', end='', flush=True)\n    call()\n"
        "    time.sleep(0.02)\nprint(' done\\x1b[m')\ncall()\ninput()"
    )
    with beside(tmp_path, text) as screen:
        screen.until_last_row("31 calls")
        assert screen.rows[:-1] == ["#" * 29 + " done", *[""] * 10]
        assert {screen.screen.buffer[0][column].fg for column in range(29)} == {"green"}
        assert screen.screen.buffer[11][20].fg == "default"


@pytest.mark.parametrize(("rows", "columns"), [(20, 80), (6, 80), (4, 120), (12, 50)])
def test_it_moves_with_the_size(tmp_path, rows, columns):
    """After a change of size there is one strip, in the new last row, and no line of the program is lost."""
    text = "print(*range(4), sep='\\n')\ncall()\ninput()\ncall()\nprint('more')\ninput()"
    with beside(tmp_path, text) as screen:
        screen.until_last_row("1 call")
        screen.resize(rows, columns)
        screen.until_last_row("1 call")
        screen.type("\n")
        screen.until_last_row("2 calls")
        assert [row for row in screen.rows if "loopguard" in row] == [screen.rows[-1]]
        assert screen.screen.margins[1] == rows - 2
        assert [line for line in screen.lines if "loopguard" not in line] == [*map(str, range(4)), "more"]
        screen.type("\n")
        assert screen.until_end() == 0
    assert_nothing_is_left(screen)


def test_a_terminal_that_becomes_tiny_is_left_alone(tmp_path):
    """The strip comes back with the room for it."""
    with beside(tmp_path, "print('text')\ncall()\ninput()") as screen:
        screen.until_last_row("1 call")
        screen.resize(3, 80)
        screen.until(lambda: screen.written.endswith(b"\x1b[J\x1b8"))
        assert_nothing_is_left(screen)
        screen.resize(12, 80)
        screen.until_last_row("1 call")


def test_a_program_that_reads_single_keys_has_the_whole_screen(tmp_path):
    """Editors and pagers do. The strip goes, and comes back when lines are read again."""
    text = (
        "import termios, tty\nbefore = termios.tcgetattr(0)\ncall()\ninput()\ntty.setcbreak(0)\nsys.stdin.read(1)\n"
        "call()\ntermios.tcsetattr(0, termios.TCSADRAIN, before)\ninput()"
    )
    with beside(tmp_path, text) as screen:
        screen.until_last_row("1 call")
        screen.type("\n")
        screen.until(lambda: screen.screen.margins is None)
        assert screen.rows[-1] == ""
        screen.type("x")
        screen.until_last_row("2 calls")


def test_a_program_that_takes_the_region_away_loses_no_line(tmp_path):
    """The next call sets it again, also if the cursor is in the last row by then."""
    text = (
        "call()\ninput()\nsys.stdout.write('\\x1b[r\\x1b[12;1H\\x1b[2Kfirst\\n')\nprint('second')\ncall()\ninput()\n"
        "print('third')"
    )
    with beside(tmp_path, text) as screen:
        screen.until_last_row("1 call")
        screen.type("\n")
        screen.until_last_row("2 calls")
        screen.type("\n")
        screen.until_end()
    assert screen.lines == ["first", "second", "third", "ended with 0"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash, whose jobs can be stopped")
def test_ctrl_z_gives_the_row_back_until_it_goes_on(tmp_path):
    """The shell has the whole screen meanwhile."""
    with beside(tmp_path, "") as prepared:
        prepared.until_end()
    app, spans = tmp_path / "app.py", tmp_path / "spans.jsonl"
    app.write_text(app.read_text() + "call()\nprint(input())")
    (tmp_path / "beside.py").write_text(BESIDE)
    job = f"set -m; {sys.executable} {tmp_path}/beside.py {spans} {app}; read -p 'shell> '; fg"
    with Screen("bash", "-c", job) as screen:
        screen.until_last_row("1 call")
        screen.type("\x1a")
        screen.until(lambda: "shell>" in "".join(screen.rows))
        assert "loopguard" not in "".join(screen.rows)
        assert screen.screen.margins is None
        screen.type("\n")
        screen.until_last_row("1 call")
        screen.type("goes on\n")
        screen.until_end()
    assert "ended with 0" in screen.lines
    assert_nothing_is_left(screen)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_that_ends_it_leaves_nothing(tmp_path, name):
    """The row is given back first."""
    import signal

    with beside(tmp_path, "call()\ninput()") as screen:
        screen.until_last_row("1 call")
        screen.send(signal.Signals[name])
        screen.until(lambda: screen.screen.margins is None and "loopguard" not in "".join(screen.rows))
        assert screen.process.wait(timeout=60) == -signal.Signals[name]
