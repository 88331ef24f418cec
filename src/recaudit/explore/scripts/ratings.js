// The ratings that may be changed: stars to click or, where there are many steps, a slider.
import { STAYS } from "./payload.js";
import { element, inStars, named, rated } from "./words.js";

/**
 * @typedef {import("./payload.js").View} View
 * @typedef {import("./payload.js").Model} Model
 */

const MOST_STARS = 6;

/** The star that a rating is now; -1 where it is none. @param {number[]} values @param {number} now */
export function starOf(values, now) {
  return values.findIndex((value) => Math.abs(value - now) <= 1e-9);
}

/** What the ratings are. @param {View} view @param {Model} model @param {(number | null)[]} stars @returns {number[]} */
export function ratingsOf(view, model, stars) {
  return view.now.map((now, place) => {
    const star = stars[place];
    return star === null || star === undefined ? now : model.stars[star];
  });
}

/** Stars of the payload, with null where a rating stays. @param {Iterable<number>} stars @returns {(number | null)[]} */
export function asGiven(stars) {
  return Array.from(stars, (star) => (star === STAYS ? null : star));
}

/** The controls of a person's ratings. */
export class Ratings {
  /** @param {HTMLElement} place @param {(at: number, star: number | null, done: boolean) => void} give */
  constructor(place, give) {
    this.place = place;
    this.give = give;
    /** @type {((star: number | null) => void)[]} */
    this.shown = [];
  }

  /** @param {View} view @param {Model} model @param {string[]} titles @param {boolean} open whether they may be moved */
  build(view, model, titles, open) {
    this.shown = [];
    this.place.replaceChildren(
      ...view.acted.map((item, at) => {
        const now = view.now[at],
          own = starOf(model.stars, now);
        const said = element("span", { class: "said" });
        const field = element("fieldset", { class: "rating" }, element("legend", {}, named(titles[item]), said));
        if (!open) field.setAttribute("disabled", "");
        const words = own < 0 ? `not rated; expected ${rated(now)}` : `rated ${rated(now)}`;
        const show =
          model.stars.length > MOST_STARS
            ? this.slider(field, model, at, own, now, words)
            : this.stars(field, model, at, own, words);
        this.shown.push((star) => {
          const given = star !== null && star !== own;
          said.textContent = given
            ? `${inStars(model.stars[star ?? 0])} (${own < 0 ? "expected" : "was"} ${rated(now)})`
            : words;
          field.classList.toggle("changed", given);
          show(star);
        });
        return field;
      }),
    );
  }

  /** @param {(number | null)[]} stars */
  show(stars) {
    this.shown.forEach((show, at) => show(stars[at]));
  }

  /**
   * @param {HTMLElement} field @param {Model} model @param {number} at @param {number} own @param {string} words
   * @returns {(star: number | null) => void}
   */
  stars(field, model, at, own, words) {
    const group = element("div", { class: "stars" });
    /** @type {HTMLInputElement[]} */
    const inputs = model.stars.map((value, star) => {
      const input = /** @type {HTMLInputElement} */ (
        element("input", { type: "radio", name: `rating-${at}`, "aria-label": inStars(value) })
      );
      input.addEventListener("change", () => this.give(at, star === own ? null : star, true));
      group.append(
        element("label", {}, input, element("span", { "aria-hidden": "true" }, value > 0 ? "★" : rated(value))),
      );
      return input;
    });
    const back = this.back(at, own < 0 ? "clear" : "undo", words);
    field.append(group, back);
    return (star) => {
      const filled = star ?? own;
      inputs.forEach((input, place) => {
        input.checked = place === filled;
        input.parentElement?.classList.toggle("on", place <= filled);
      });
      back.hidden = star === null;
    };
  }

  /**
   * @param {HTMLElement} field @param {Model} model @param {number} at @param {number} own @param {number} now
   * @param {string} words
   * @returns {(star: number | null) => void}
   */
  slider(field, model, at, own, now, words) {
    const near = model.stars.reduce(
      (best, value, star) => (Math.abs(value - now) < Math.abs(model.stars[best] - now) ? star : best),
      0,
    );
    const input = /** @type {HTMLInputElement} */ (
      element("input", {
        type: "range",
        min: "0",
        max: String(model.stars.length - 1),
        step: "1",
        "aria-label": "rating",
      })
    );
    const give = (/** @type {boolean} */ done) =>
      this.give(at, Number(input.value) === own ? null : Number(input.value), done);
    input.addEventListener("input", () => give(false));
    input.addEventListener("change", () => give(true));
    const back = this.back(at, "undo", words);
    field.append(input, back);
    return (star) => {
      input.value = String(star ?? near);
      input.setAttribute("aria-valuetext", star === null ? words : inStars(model.stars[star]));
      back.hidden = star === null;
    };
  }

  /** @param {number} at @param {string} text @param {string} words @returns {HTMLElement} */
  back(at, text, words) {
    const button = element(
      "button",
      { type: "button", class: "quiet-button", "aria-label": `${text}: ${words}` },
      text,
    );
    button.addEventListener("click", () => this.give(at, null, true));
    return button;
  }
}
