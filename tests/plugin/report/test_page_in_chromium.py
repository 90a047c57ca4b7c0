"""Test a report in headless Chromium: light and dark, on phone and desktop sizes, with the keyboard, and with axe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from distrain.report import page
from distrain.report.panels import panels
from tests.plugin.report import records
from tests.plugin.report.records import event, start

CHROMIUM = "/usr/bin/chromium"
# If it runs as root, as in a container, Chromium needs --no-sandbox. Chromium is safe without a sandbox here, because
# the page contains no script.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WIDTHS = (390, 1280, 1920)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# Other sizes and colour schemes run only in the full matrix.
TRIED = ((390, "light"), (1280, "dark"))
# A text whose height is below this number of pixels is too small to read. The text of a plot grows and shrinks with the
# width of the page.
SMALLEST_TEXT = 9.0
# Chromium may start and draw slowly on a busy machine. Playwright's default is 30 s.
LONGEST_MS = 180_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=LONGEST_MS)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open an empty page in a new browser context. `options` are the arguments of Browser.new_context."""
    context = browser.new_context(**options)
    context.set_default_timeout(LONGEST_MS)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return three pages: about one run, about two runs, and about a run with long names and no points to plot."""
    one, two = records.run(records.rescaled()), records.run(records.rescaled(), "run2")
    long = "a-long-name-without-any-place-to-break-" * 5
    lines = [start(0, 2, values={"data": f"s3://{long}"}), event("end", 1, cause="failed", reason=long)]
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name, runs in {"one": [one], "two": [one, two], "long": [records.run(lines, long)]}.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(page.html(runs, panels(runs)))
    return found


@pytest.fixture(
    params=[
        pytest.param(case, id=f"{case[0]}-{case[1]}", marks=() if case in TRIED else pytest.mark.full)
        for case in itertools.product(WIDTHS, SCHEMES)
    ]
)
def shown(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    width, scheme = request.param
    with tab(browser, viewport={"width": width, "height": 900}, color_scheme=scheme) as opened:
        yield opened


@pytest.mark.parametrize("name", ["one", "two", "long"])
def test_page_fits_and_is_readable(shown: Page, pages: dict[str, Path], name: str, tmp_path: Path) -> None:
    messages: list[str] = []
    shown.on("console", lambda message: messages.append(message.text))
    shown.on("request", lambda request: messages.append(request.url))

    shown.goto(pages[name].as_uri())
    shown.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    shown.screenshot(path=tmp_path / "page.png", full_page=True)

    assert messages == [pages[name].as_uri()]  # The browser requests only the page.
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert _sizes_of_texts(shown) >= SMALLEST_TEXT
    assert (tmp_path / "page.png").stat().st_size > 10_000
    violations = Axe().run(shown, options={"resultTypes": ["violations"]}).response["violations"]
    assert [_told(violation) for violation in violations if violation["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize(("name", "sides"), [("one", [0, 1]), ("two", [1])])
def test_facts_about_a_run_need_no_scrolling(shown: Page, pages: dict[str, Path], name: str, sides: list[int]) -> None:
    """The columns of several runs may need scrolling to the side, the rows never need scrolling down."""
    shown.goto(pages[name].as_uri())

    script = "(() => { const box = document.querySelector('main .scroll'); return ["
    script += "box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight] })()"
    hidden = shown.evaluate(script)
    assert [hidden[side] for side in sides] == [0] * len(sides)


def _sizes_of_texts(shown: Page) -> float:
    """Return the height of the smallest text in the plots, in pixels on the screen."""
    script = """() => Math.min(...[...document.querySelectorAll('svg text')].map(text =>
        parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a).filter(size => size > 0), 99)"""
    return float(shown.evaluate(script))


def _told(violation: dict[str, Any]) -> tuple[str, str]:
    return violation["id"], violation["nodes"][0]["html"]


def test_plots_have_the_colours_of_the_scheme(browser: Browser, pages: dict[str, Path]) -> None:
    colours = []
    for scheme in SCHEMES:
        with tab(browser, color_scheme=scheme) as shown:
            shown.goto(pages["one"].as_uri())
            script = "getComputedStyle(document.querySelector('#loss-time svg text')).fill"
            colours.append((shown.evaluate(script), shown.evaluate("getComputedStyle(document.body).backgroundColor")))

    (light, light_ground), (dark, dark_ground) = colours
    assert (light, light_ground) == ("rgb(28, 36, 48)", "rgb(244, 246, 249)")
    assert (dark, dark_ground) == ("rgb(230, 234, 240)", "rgb(17, 21, 27)")


def test_keyboard_opens_the_numbers_of_a_plot(browser: Browser, pages: dict[str, Path]) -> None:
    with tab(browser) as shown:
        shown.goto(pages["one"].as_uri())
        for _ in range(2):  # The first Tab goes to the table of facts, which can be scrolled.
            shown.keyboard.press("Tab")

        shown.keyboard.press("Enter")

        assert shown.evaluate("document.activeElement.textContent") == "Numbers of \u201cLoss over time\u201d"
        assert shown.evaluate("document.querySelector('#loss-time details').open")
        assert shown.get_by_role("img", name="Loss over time").count() == 1
