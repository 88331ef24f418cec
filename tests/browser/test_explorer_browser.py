"""The explorer in a browser: every control, the digits, the address, a phone, a hostile catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from explore.explored import array
from explore.twin import PageState, random_states, twin
from recaudit.explore import Exploration
from recaudit.explore.page import script_of
from recaudit.explore.views import STANDINGS, STAYS

if TYPE_CHECKING:
    from playwright.sync_api import Page

STATES = 200
COMPUTE = """(states) => {
  %s
  const payload = new Payload(JSON.parse(document.getElementById("payload").textContent));
  return states.map(([person, model, editor, stars, beta, weight]) => {
    const state = { person, model, editor, stars, beta, weight, wish: null };
    const found = outcomeOf(payload, state), view = payload.view(person, model);
    const given = ratingsOf(payload.view(editor, model), payload.models[model], stars);
    const scores = editor === person ? view.own(given) : view.after(editor, given);
    const items = found.rows.map((row) => view.rows[row]);
    const apart = divergence(payload.interests(person), shareOf(items, payload.genres));
    const { rows, places, chances } = found;
    return { scores: [...scores], order: [...places.keys()], chances: [...chances], list: rows, apart };
  });
}"""


@pytest.fixture(scope="module")
def states(content: Exploration) -> list[PageState]:
    return random_states(content.payload, STATES)


def go(page: Page, address: str, state: str = "") -> None:
    page.goto(f"{address}{state}")
    page.wait_for_selector("html[data-ready]")


def shown(page: Page) -> list[str]:
    """The titles of the list."""
    return page.locator("#list li:not([hidden]):not(.outside) .title").all_text_contents()


def titles(content: Exploration, state: PageState, rows: Any) -> list[str]:
    items = array(content.payload["people"][state.person]["views"][state.model]["rows"], np.uint32)[rows]
    return [content.payload["items"]["titles"][item] for item in items]


def in_address(content: Exploration, state: PageState, **more: str) -> str:
    from urllib.parse import urlencode

    people, model = content.payload["people"], content.payload["models"][state.model]
    given = [f"{at + 1}:{model['stars'][star]:g}" for at, star in enumerate(state.stars) if star is not None]
    parts = {"user": people[state.person]["id"], "model": model["label"], "ratings": ",".join(given)}
    parts |= {"editor": people[state.editor]["id"], "beta": repr(state.beta), "weight": repr(state.weight), **more}
    return f"#{urlencode(parts)}"


def test_the_page_computes_the_digits_of_python(
    page: Page, address: str, content: Exploration, states: list[PageState]
) -> None:
    go(page, address)
    code = script_of("twin.js", "payload.js", "words.js", "ratings.js", "outcome.js")
    assert all(part in page.content() for part in code.split("\n\n")[:3])
    found = page.evaluate(COMPUTE % code, [list(state) for state in states])
    kinds = set()
    for state, own in zip(states, found, strict=True):
        expected = twin(content.payload, state)
        kinds.add((state.person == state.editor, state.weight > 0))
        np.testing.assert_array_equal(own["scores"], expected.scores)
        assert own["order"] == expected.order.tolist()
        assert own["list"] == expected.list.tolist()
        np.testing.assert_allclose(own["chances"], expected.chances, rtol=1e-12, atol=1e-300)
        assert own["apart"] == pytest.approx(expected.apart, rel=1e-12, abs=1e-12)
    assert len(kinds) == 4


def test_and_shows_the_lists_of_python(page: Page, address: str, content: Exploration, states: list[PageState]) -> None:
    go(page, address)
    for state in states[:60]:
        page.evaluate("(hash) => { location.hash = hash; }", in_address(content, state))
        page.wait_for_function(
            "(hash) => location.hash.includes(hash)", arg=f"user={content.payload['people'][state.person]['id']}"
        )
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        assert shown(page) == titles(content, state, twin(content.payload, state).list)


def test_stars_move_the_list_and_can_be_taken_back(page: Page, address: str, content: Exploration) -> None:
    go(page, address, "#model=ALS")
    before = shown(page)
    stars = [0] * 10
    for place in range(10):
        page.locator(f"input[name=rating-{place}]").first.check(force=True)
    state = PageState(0, 0, 0, list(stars), content.payload["models"][0]["beta"], 0.0)
    assert shown(page) == titles(content, state, twin(content.payload, state).list)
    assert "new" in page.locator("#changed").inner_text() or shown(page) == before
    assert page.locator("#live").text_content()
    page.locator(".rating .quiet-button").first.click()
    assert page.locator(".rating.changed").count() == 9
    page.get_by_role("button", name="Take all changes back").click()
    assert page.locator(".rating.changed").count() == 0
    assert shown(page) == before


def test_many_stars_are_a_slider(page: Page, half_stars: tuple[Exploration, str]) -> None:
    content, address = half_stars
    go(page, address)
    sliders = page.get_by_role("slider", name="rating")
    assert sliders.count() == 10
    for place in range(10):
        sliders.nth(place).focus()
        page.keyboard.press("Home")
    assert sliders.first.get_attribute("aria-valuetext") == "0.5 stars"
    state = PageState(0, 0, 0, [0] * 10, content.payload["models"][0]["beta"], 0.0)
    assert shown(page) == titles(content, state, twin(content.payload, state).list)
    sliders.first.focus()
    page.keyboard.press("ArrowRight")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert (sliders.first.input_value(), sliders.nth(1).input_value()) == ("1", "0")
    page.locator(".rating .quiet-button").first.click()
    assert page.locator(".rating.changed").count() == 9


def test_what_would_it_take_and_trying_it(page: Page, address: str, content: Exploration) -> None:
    view, names = content.payload["people"][0]["views"][0], content.payload["items"]["titles"]
    rows, standing = array(view["rows"], np.uint32), array(view["standing"], np.uint8)
    least = array(view["least"], np.uint8).reshape(len(rows), -1)
    effort = (least != STAYS).sum(axis=1)
    wanted = int(np.flatnonzero((standing == STANDINGS.index("least")) & (effort > 0))[0])
    go(page, address, "#model=ALS")
    page.locator("#search").fill(names[rows[wanted]])
    page.locator("#offers button", has_text=names[rows[wanted]]).first.click()
    answer = page.locator("#answer p").first
    assert answer.inner_text().startswith("Give ")
    assert names[rows[wanted]] not in shown(page)
    answer.get_by_role("button").click()
    assert names[rows[wanted]] in shown(page)
    assert page.locator(".rating.changed").count() == effort[wanted]
    assert page.locator("#list li:visible").count() == 10
    assert names[rows[wanted]] in (page.locator("#live").text_content() or "")
    page.get_by_role("button", name="Try the best ratings").click()
    state = [
        None if star == STAYS else int(star) for star in array(view["best"], np.uint8).reshape(len(rows), -1)[wanted]
    ]
    made = PageState(0, 0, 0, list(state), content.payload["models"][0]["beta"], 0.0)
    assert shown(page) == titles(content, made, twin(content.payload, made).list)


def test_what_cannot_be_done_is_said(page: Page, address: str, content: Exploration) -> None:
    view, names = content.payload["people"][0]["views"][0], content.payload["items"]["titles"]
    rows, standing = array(view["rows"], np.uint32), array(view["standing"], np.uint8)
    never = int(np.flatnonzero(standing == STANDINGS.index("impossible"))[0])
    from urllib.parse import urlencode

    go(page, address, "#" + urlencode({"model": "ALS", "item": names[rows[never]]}))
    assert page.locator("#answer p").first.inner_text().startswith("It cannot be done.")
    assert page.locator("#list .outside .title").inner_text() == names[rows[never]]


def test_knobs_turn_chance_and_taste(page: Page, address: str, content: Exploration) -> None:
    go(page, address, "#model=ALS")

    def odds() -> float:
        return float(page.locator("#list .chance").first.inner_text().rstrip("%"))

    def slide(name: str, value: float) -> None:
        page.locator(name).evaluate(
            "(input, value) => { input.value = value;"
            " for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind)); }",
            value,
        )

    middle = odds()
    slide("#chance", 4)
    even = odds()
    slide("#chance", -4)
    assert even < middle < odds()
    slide("#chance", 0)
    before = page.locator("#apart").inner_text()
    slide("#weight", 1)
    state = PageState(0, 0, 0, [None] * 10, content.payload["models"][0]["beta"], 1.0)
    assert shown(page) == titles(content, state, twin(content.payload, state).list)
    assert page.locator("#apart").inner_text() != before
    assert "weight=1" in page.url


def test_another_persons_ratings(page: Page, address: str, content: Exploration) -> None:
    go(page, address, "#model=ALS")
    page.get_by_label("Whose ratings change").select_option(index=1)
    editor = int(page.get_by_label("Whose ratings change").input_value())
    for place in range(10):
        page.locator(f"input[name=rating-{place}]").last.check(force=True)
    state = PageState(0, 0, editor, [4] * 10, content.payload["models"][0]["beta"], 0.0)
    assert shown(page) == titles(content, state, twin(content.payload, state).list)
    assert content.payload["people"][editor]["id"] in page.locator("#whose").inner_text()
    page.locator("#offers button").first.click()
    assert "not proved" in page.locator("#answer").inner_text()


def test_models_that_the_page_cannot_compute_say_so(page: Page, address: str, content: Exploration) -> None:
    go(page, address)
    page.locator("#model").select_option("Popular")
    assert "whatever is rated" in page.locator("#precomputed").inner_text()
    assert page.locator(".rating").count() == 0
    assert len(shown(page)) == 10
    page.locator("#model").select_option("Nonlinear")
    assert "worked out beforehand" in page.locator("#precomputed").inner_text()
    assert page.locator("fieldset.rating:not([disabled])").count() == 0
    view = content.payload["people"][0]["views"][3]
    answer = next(one for one in view["answers"] if one["stars"])
    rows, names = array(view["rows"], np.uint32), content.payload["items"]["titles"]
    page.locator("#search").fill(names[rows[answer["row"]]])
    page.keyboard.press("Enter")
    page.locator("#answer .try").first.click()
    assert shown(page) == [names[rows[row]] for row in answer["list"]]
    assert page.locator(".rating.changed").count() == sum(star != STAYS for star in answer["stars"])


def test_back_and_forward(page: Page, address: str) -> None:
    go(page, address, "#model=ALS")
    first = shown(page)
    page.locator("input[name=rating-0]").last.check(force=True)
    page.locator("#model").select_option("ItemKNN")
    second, there = shown(page), page.url
    page.go_back()
    page.wait_for_function("document.getElementById('model').selectedOptions[0].text === 'ALS'")
    assert page.locator("input[name=rating-0]").last.is_checked()
    page.go_back()
    page.wait_for_function("!document.querySelector('.rating.changed')")
    assert shown(page) == first
    page.go_forward()
    page.go_forward()
    page.wait_for_function("document.getElementById('model').selectedOptions[0].text === 'ItemKNN'")
    assert (shown(page), page.url) == (second, there)


@pytest.mark.parametrize(
    "state", ["#user=nobody&model=?&ratings=99:9,x,1:7&beta=-1&weight=7&item=none&editor=q", "#%%%", "#ratings=1:5:5"]
)
def test_an_address_that_says_nonsense_opens_the_page(page: Page, address: str, state: str) -> None:
    go(page, address, state)
    assert len(shown(page)) == 10


def test_by_keyboard_alone(page: Page, address: str) -> None:
    go(page, address, "#model=ALS")
    page.locator("#search").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#offers') !== null")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".rating.changed").count() > 0
    page.locator("input[name=rating-3]").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name=rating-3]").nth(1).is_checked()
    names = page.locator("input, select, button").evaluate_all(
        "(all) => all.filter((one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim())).length"
    )
    assert names == 0


def test_a_phone_has_no_sideways_scroll(page: Page, address: str, hostile_address: str) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    for where in (address, hostile_address):
        go(page, where, "#model=ALS")
        page.locator("#offers button").first.click()
        for details in page.locator("summary").all():
            details.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        small = page.locator("#offers button, .stars label, select, .try").evaluate_all(
            "(all) => all.filter((one) => one.offsetHeight && one.getBoundingClientRect().height < 24).length"
        )
        assert small == 0


def test_a_hostile_catalogue_is_text(page: Page, hostile_address: str) -> None:
    go(page, hostile_address)
    before = page.locator("*").evaluate_all(
        "(all) => all.map((one) => one.tagName).filter((tag) => /^(IMG|B|TEXTAREA)$/.test(tag)).length"
    )
    for place in range(5):
        page.locator(f"input[name=rating-{place}]").last.check(force=True)
    page.locator("#search").fill("<script>")
    page.keyboard.press("Enter")
    assert "<script>" in page.locator("#answer").inner_text()
    assert page.locator("img, textarea").count() == before == 0


def test_two_thousand_items_take_no_more_than_a_moment(page: Page, large_address: str) -> None:
    go(page, large_address)
    assert page.evaluate("JSON.parse(document.getElementById('payload').textContent).items.titles.length") >= 2_000
    measured = page.context.new_cdp_session(page)
    measured.send("Performance.enable", {"timeDomain": "threadTicks"})  # the processor's time, whoever else uses it

    def spent() -> float:
        found = {one["name"]: one["value"] for one in measured.send("Performance.getMetrics")["metrics"]}
        return 1e3 * float(found["TaskDuration"])

    times = []
    for step in range(30):
        before = spent()
        page.locator("#weight" if step % 2 else "#chance").evaluate(
            "(input, step) => { input.value = Number(input.min) + step / 30 * (input.max - input.min);"
            " input.dispatchEvent(new Event('input'));"
            " return new Promise((done) => requestAnimationFrame(() => setTimeout(done))); }",
            step,
        )
        times.append(spent() - before)
    assert np.median(times) < 50
    before = spent()
    page.locator("input[name=rating-0]").last.check(force=True)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert spent() - before < 100  # with the check itself
