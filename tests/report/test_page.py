"""The report in a real browser: drawn, quiet, reachable by keyboard, readable in light, dark and on a small screen."""

from __future__ import annotations

import re

import pytest

from otel_loopguard.report import Call, Run, Spent
from otel_loopguard.telemetry.shown_calls import ShownCall

from . import made

TAB, DOWN, RIGHT, END, HOME = "\ue004", "\ue015", "\ue014", "\ue010", "\ue011"
TIMES = "\u00d7"
FEW = (made.ping_pong(), made.plain(), made.every_decision())


def test_it_is_drawn_without_a_complaint_and_without_asking_anybody(opened):
    """Charts, bars and strips have ink; the console is empty; nothing is fetched from anywhere."""
    page = opened(*FEW)
    assert page.js("document.querySelectorAll('.mode-row canvas').length") == 2
    for canvas in (".mode-row canvas", "#strips", "#legend canvas"):
        assert page.inked(canvas) > 50, canvas
    assert page.js("[...document.querySelectorAll('.bar i')].every((one) => one.offsetWidth > 1)")
    assert page.complaints() == []
    assert page.requests() == set()


def test_the_policy_of_the_page_forbids_every_request(opened):
    """Even a script that got in could not send anything out, and a foreign script does not run."""
    page = opened(*FEW)
    page.driver.execute_script("""
        document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:9/x.png" }),
          Object.assign(document.createElement("script"), { textContent: "window.owned = true" }));
        fetch("http://127.0.0.1:9/").catch(() => 0);""")
    page.drawn()
    assert page.js("window.owned") is None
    assert len([line for line in page.complaints() if "Content Security Policy" in line]) >= 3


def test_the_numbers_add_up(opened):
    """Turns, calls and decisions, in the overview, by mode and by tool."""
    page = opened(*FEW)
    assert page.text("#lead").startswith(
        "2 of 3 turns looped. 14 of 27 calls did not run, and a message to the model was added to 2 calls"
    )
    assert page.js("[...document.querySelectorAll('#numbers dd')].map((one) => +one.innerText)") == [
        3, 2, 27, 2, 2, 1, 11, 1, 1,
    ]  # fmt: skip
    assert page.text(".mode-row .sum b") == "11"
    assert page.js("[...document.querySelectorAll('#tools tbody tr')].map((one) => one.cells[2].innerText)") == [
        "6", "5", "5",
    ]  # fmt: skip


def test_calls_judged_after_they_ran_are_said_to_be_what_they_would_be(opened):
    """Headline, tiles, legend, rows and calls of a replay or a watch: nothing was refused, as all of it ran."""
    page = opened(*FEW, conditional=True)
    assert page.text("#lead").startswith(
        "2 of 3 turns looped. 14 of 27 calls would not have run, and a message to the model would have been added"
    )
    assert "would be refused" in page.text("#numbers")
    assert "did not run" not in page.text("body")
    assert "14 calls · would be: 10 refused · 1 nudged" in page.text(".turn .sums")
    page.js("document.getElementById('viewport').focus()")
    page.keys(END)
    assert "would be refused" in page.text("#said")


def test_the_rows_of_loops_stand_above_everything_else(opened):
    """Below the figures, before the first number; each with the turn that has it. Without a loop there is no list."""
    row = "open_page x14: 3 ran, 10 refused (11 of 14 would have been refused)"
    page = opened(made.ping_pong()._replace(turn=1, loops=[row]), lead="1 of 1 turn looped.\nGuarded: 3 ran.")
    assert page.text("#lead") == "1 of 1 turn looped.\nGuarded: 3 ran."
    assert page.text("#loops").split("\n") == [row, "pages · turn 1"]
    assert page.js("document.getElementById('loops').getBoundingClientRect().bottom < 400")
    assert page.complaints() == []
    assert not opened(made.plain()).js("document.getElementById('loops').offsetParent")


def test_the_name_beside_a_loop_leads_to_its_turn(opened):
    """The others are hidden until the words of the search are removed."""
    one, two = (made.ping_pong()._replace(turn=number, loops=["open_page x14: 3 ran"]) for number in (1, 2))
    page = opened(one, two)
    assert page.text("#shown") == "2 turns shown"
    page.click("#loops li:nth-child(2) button")
    assert page.text("#shown") == "1 turn shown"
    assert page.js("document.getElementById('controls').elements.find.value") == "pages · turn 2"
    assert page.complaints() == []


def test_arguments_that_a_user_wants_to_see_are_text(opened):
    """One row a call, with its number; they are shown, not obeyed. Without any there is no table."""
    hostile = "path=" + made.HOSTILE[:70]
    page = opened(made.ping_pong(), shown=[(7, ShownCall("open_page", "ping_pong", "block", hostile))])
    cells = page.js("[...document.querySelectorAll('#arguments tbody tr > *')].map((one) => one.textContent)")
    assert cells == [f"open_page({hostile})", "7", "ping_pong, block"]
    assert "By choice it holds arguments" in page.text("footer")
    assert page.complaints() == []
    assert page.js("document.querySelectorAll('img').length") == 0
    assert opened(made.ping_pong()).js("document.getElementById('arguments').childElementCount") == 0


def test_a_turn_ends_once(opened):
    """The call that ends it names the limit; what follows is after the end, and in no count of trips."""
    ended = Call("read", 1, "aborted", "cycle", why="after 7 refusals")
    page = opened(
        Run("x", 1, [Call("read", 1, "refused", "cycle"), ended, *[Call("read", 1, "after")] * 5]), conditional=True
    )
    assert "would be aborted\n1\nafter the end\n5" in page.text("#numbers").replace("\n\n", "\n")
    assert page.text(".turn .sums") == "7 calls · 5 after the end · would be: 1 aborted · 1 refused"
    assert page.text(".mode-row .sum b") == "2"
    page.js("document.getElementById('viewport').focus()")
    page.keys(HOME, RIGHT)
    assert page.text("#said") == "call 2 of 7: read, call A, would be aborted, after 7 refusals, cycle"
    page.keys(END)
    assert page.text("#said") == "call 7 of 7: read, call A, after the end"
    assert page.complaints() == []


def test_the_sums_of_a_turn_are_read_in_full_and_a_wide_strip_has_a_hint(opened):
    """Nothing of a row's sums is cut off; cells beyond the right side are announced."""
    calls = [call for call in made.every_decision().calls if call.decision not in ("failed", "reused")] * 20
    page = opened(Run("all", 1, calls), conditional=True)
    row = "document.querySelector('.turn .sums')"
    assert page.js(f"{row}.scrollHeight <= {row}.clientHeight && {row}.scrollWidth <= {row}.clientWidth")
    assert "scroll to the right" in page.text("#timeline")
    assert "scroll to the right" not in opened(made.ping_pong()).text("#timeline")


def test_the_axis_of_a_short_run_begins_at_zero_with_round_steps(opened):
    """The seconds of a run under a minute are counted from its begin, wherever that is on the clock."""
    at = made.NOON + 0.37
    calls = [Call("read", 1, "refused", "cycle", at + number / 10) for number in range(40)]
    page = opened(Run("short", 0, calls))
    page.driver.execute_script("""
        window.written = [];
        const write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
          window.written.push(text);
          return write.call(this, text, ...rest);
        };""")
    page.click("[name=theme][value=dark]")
    ticks = sorted({text for text in page.js("window.written") if text.startswith("+")})
    assert ticks[0] == "+0 s"
    assert all(re.fullmatch(r"\+\d(\.5)? s", tick) for tick in ticks), ticks


def test_tokens_are_shown_where_they_are_known(opened):
    """In all, in loops, and of the chosen turn; a turn without known tokens shows none."""
    page = opened(made.ping_pong()._replace(spent=Spent(8_000, 6_000, 0.4, 0.3, requests=9, agents=1)), made.plain())
    assert "75% of 8,000 tokens were spent in loops, at a cost of 0.3 of 0.4." in page.text("#lead")
    assert page.text("#numbers").split("\n")[-4:] == ["tokens", "8,000", "tokens in loops", "6,000"]
    page.choose("which", "all").js("document.getElementById('viewport').focus()")
    page.keys(HOME)
    assert "8,000 tokens, 6,000 in loops · 9 requests · 1 agent" in page.text("#detail")
    page.keys(DOWN)
    assert "token" not in page.text("#detail")
    page.choose("order", "tokens").keys(HOME)
    assert "8,000 tokens" in page.text("#detail")
    assert page.complaints() == []


def test_a_report_without_tokens_does_not_speak_of_them(opened):
    """A zero would read as if nothing had been spent."""
    page = opened(*FEW)
    assert "token" not in page.text("#lead") + page.text("#numbers")


def test_everything_is_reached_with_the_tabulator(opened):
    """The tab key reaches all controls in the order of the page, and each one shows its focus."""
    page = opened(*FEW)
    names = []
    for _ in range(11):
        page.keys(TAB)
        names.append(
            page.js("document.activeElement.id || document.activeElement.name || document.activeElement.innerText")
        )
        assert page.js("document.activeElement.matches(':focus-visible')"), names
    assert names == [
        "Skip to the turns", "theme", "As a table", "which", "mode", "order", "find", "smaller", "larger", "as-table",
        "viewport",
    ]  # fmt: skip


def test_turns_and_calls_are_chosen_with_the_arrow_keys(opened):
    """Up and down go from turn to turn, left and right from call to call; a screen reader gets the call."""
    page = opened(*FEW)
    page.js("document.getElementById('viewport').focus()")
    page.keys(RIGHT, RIGHT)
    assert page.text("#said").startswith("call 2 of 14: go_back, call B, ran")
    page.keys(END)
    assert page.text("#said").startswith("call 14 of 14: go_back, call B, refused, ping_pong")
    page.keys(DOWN, HOME)
    assert page.text("#detail h3") == "all · turn 1"
    active = "document.getElementById(document.getElementById('viewport').getAttribute('aria-activedescendant'))"
    assert page.js(f"{active}.ariaSelected") == "true"
    assert f"shape: A{TIMES}7" in page.js(f"{active}.ariaLabel")


def test_the_pointer_shows_a_call_and_chooses_it(opened):
    """The pointer over a cell shows its call, and a click keeps it; outside the strips nothing is shown."""
    from selenium.webdriver import ActionChains

    page = opened(*FEW)
    viewport = page.driver.find_element("id", "viewport")
    page.js("document.getElementById('viewport').scrollIntoView({block: 'center'})")
    left, top = -viewport.size["width"] // 2, -viewport.size["height"] // 2
    ActionChains(page.driver).move_to_element_with_offset(viewport, left + 300 + 5 * 16 + 8, top + 25).click().perform()
    page.drawn()
    assert page.text("#tip").splitlines()[:2] == ["go_back", "call 6 of 14"]
    assert page.text("#detail .chosen").startswith("call 6 of 14: go_back, call B, refused, ping_pong")
    ActionChains(page.driver).move_to_element_with_offset(viewport, left + 100, top + 25).perform()
    assert page.drawn().js("document.getElementById('tip').hidden")


def test_a_shape_is_said_in_words(opened):
    """A-B-A-B is one lap, shown once, with the calls of its letters below."""
    page = opened(*FEW)
    assert page.text("#detail .shape") == f"(A B){TIMES}7"
    assert f"open_page {TIMES} 7" in page.text("#detail ul")


def test_equal_calls_stand_at_equal_heights(opened):
    """In a strip of A-B-A-B every other cell is at the same height, and neighbours are not."""
    page = opened(made.ping_pong())
    heights = page.js("""(() => {
        const canvas = document.getElementById("strips"), fine = devicePixelRatio, ctx = canvas.getContext("2d");
        return [4, 5, 6, 7, 8, 9].map((call) => {
          const { data } = ctx.getImageData((call * 16 + 3) * fine, 0, 1, 52 * fine);
          for (let y = 0; y < 52 * fine; y++) if (data[y * 4 + 3] > 200) return y;
          return -1;
        });
      })()""")
    assert heights[0] == heights[2] == heights[4] != heights[1] == heights[3] == heights[5]


def test_dark_as_the_system_says_and_as_one_chooses(opened, driver):
    """The system's choice is followed while it changes; the switch wins over it, and canvases follow."""
    page = opened(*FEW)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.js(ground)
    first = page.driver.execute_script("return document.getElementById('strips').toDataURL()")
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    page.drawn()
    assert page.js(ground) != light
    assert page.driver.execute_script("return document.getElementById('strips').toDataURL()") != first
    assert page.click("input[value=light]").js(ground) == light
    assert page.complaints() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast_enough(opened, theme):
    """Every pair of ink and ground reaches 4.5 to 1, every sign 3 to 1."""
    page = opened(*FEW)
    page.click(f"input[value={theme}]")

    def contrast(one, other):
        lights = sorted(_luminance(page.js(f"getComputedStyle(document.documentElement).getPropertyValue('--{n}')"))
                        for n in (one, other))  # fmt: skip
        return (lights[1] + 0.05) / (lights[0] + 0.05)

    words = ["ran", "nudged", "reused", "refused", "concluded", "aborted"]
    pairs = [(f"{word}-ink", word) for word in words] + [("ink", "card"), ("muted", "card"), ("muted", "ground")]
    assert {pair: contrast(*pair) for pair in pairs if contrast(*pair) < 4.5} == {}
    signs = [*words[1:], "failed", "edge", "focus"]
    assert {sign: contrast(sign, "card") for sign in signs if contrast(sign, "card") < 3} == {}


def _luminance(colour: str) -> float:
    parts = [int(colour.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("apart", "told"), [(1, r"\+13 s"), (60, r"\d\d:\d\d"), (86_400, r"Dec [345], \d\d:\d\d"), (30, r"\d\d:\d\d:\d\d")]
)
def test_times_are_as_fine_as_they_need_to_be(opened, apart, told):
    """Seconds from the start, the time of day or the date, by how long all of it took."""
    calls = [call._replace(at=made.NOON + n * apart) for n, call in enumerate(made.ping_pong().calls)]
    page = opened(Run("x", 0, calls)).click("#over-time-table summary")
    last = page.js("[...document.querySelectorAll('#over-time-table tbody th')].at(-1).innerText")
    assert re.fullmatch(told, last.replace("+12.78", "+13")), last


def test_tables_say_the_same(opened):
    """Charts and strips have a table each, with headings for rows and columns."""
    page = opened(*FEW)
    page.click("#over-time-table summary")
    assert page.text("#over-time-table thead").strip().split("\t") == ["From", "ping_pong", "generic_repeat"]
    page.choose("which", "all").click("#as-table")
    rows = page.js(
        "[...document.querySelectorAll('#listing tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    assert rows[0][:8] == ["pages · turn 0", "14", "3", "0", "1", "0", "10", "0"]
    assert [row[0] for row in rows] == ["pages · turn 0", "plain · turn 0", "all · turn 1"]
    assert page.js("document.querySelectorAll('#listing th[scope=row]').length") == 3
    assert not page.js("document.getElementById('viewport').offsetParent")


def test_a_turn_that_has_a_name_is_shown_by_it(opened):
    """A numbered turn is shown as a number, and a named turn by its name."""
    page = opened(*(made.ping_pong()._replace(turn=turn) for turn in (3, "retry_limit")))
    assert page.js("[...document.querySelectorAll('.turn .name')].map((one) => one.innerText)") == [
        "pages · turn 3", "pages · retry_limit",
    ]  # fmt: skip


def test_turns_are_filtered_and_sorted(opened):
    """Turns are filtered by outcome, mode and name, and sorted by their trips."""
    page = opened(*FEW)
    names = "[...document.querySelectorAll('.turn .name')].map((one) => one.innerText)"
    assert page.js(names) == ["pages · turn 0", "all · turn 1"]
    assert page.choose("mode", "generic_repeat").js(names) == ["all · turn 1"]
    assert page.choose("mode", "").choose("which", "all").choose("find", "TOOL_3").js(names) == ["plain · turn 0"]
    assert page.choose("find", "nothing of the kind").text("#shown") == "0 turns shown"
    assert page.choose("find", "").choose("order", "calls").js(names)[0] == "pages · turn 0"
    assert page.complaints() == []


def test_a_small_screen(opened, driver):
    """Nothing but the strips needs to be scrolled sideways."""
    size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page = opened(*FEW)
    assert page.js("document.documentElement.scrollWidth") <= 360
    assert page.inked("#strips") > 50
