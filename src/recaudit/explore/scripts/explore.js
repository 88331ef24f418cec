// The page: what is chosen, what follows from it, and what is shown.
import { Payload } from "./payload.js";
import { fresh, read, written } from "./address.js";
import { at, element, inStars, named, ordinal, plural } from "./words.js";
import { Ratings } from "./ratings.js";
import { outcomeOf } from "./outcome.js";
import { answer, answerOfOther, matching, suggestions, takes, told } from "./wish.js";
import { List, Tastes } from "./list.js";

/**
 * @typedef {import("./address.js").State} State
 * @typedef {import("./outcome.js").Outcome} Outcome
 */

const payload = new Payload(JSON.parse(at("payload").textContent ?? ""));
const standings = payload.packed.standings;
const people = /** @type {HTMLSelectElement} */ (at("person"));
const models = /** @type {HTMLSelectElement} */ (at("model"));
const editors = /** @type {HTMLSelectElement} */ (at("editor"));
const search = /** @type {HTMLInputElement} */ (at("search"));
const chance = /** @type {HTMLInputElement} */ (at("chance"));
const weight = /** @type {HTMLInputElement} */ (at("weight"));
const ratings = new Ratings(at("ratings"), (place, star, done) =>
  change((next) => {
    next.stars[place] = star;
  }, done),
);
const list = new List(at("list"), payload);
const tastes = new Tastes(at("genres"), at("apart"), payload);
/** How far the sharpness may be turned, as powers of two of the model's own. */
const TURNS = 4;

/** @type {State} */
let state = read(location.hash, payload);
/** What was built: a person, a model, an editor. */
let built = "";
/** @type {Outcome} */
let before = { rows: [], places: new Map(), chances: new Float64Array() };
let shownWish = "";
/** @type {Outcome | null} */
let latest = null;

const view = () => payload.view(state.person, state.model);
const editing = () => payload.view(state.editor, state.model);
const model = () => payload.models[state.model];
const byOther = () => state.editor !== state.person;

/** Change the state, show it, and write it to the address. The address is written by the history API, which is
 * synchronous: a reload right after a key press keeps the change, which a navigation to the new address would lose.
 * @param {(next: State) => void} edit @param {boolean} done If true, the change becomes an entry of the history. */
function change(edit, done) {
  const next = { ...state, stars: [...state.stars] };
  edit(next);
  state = next;
  show();
  const hash = written(state, payload);
  if (hash === location.hash) return;
  if (done) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

/** What does not follow from the ratings: names, controls, history; whether anything had to be made anew. */
function build() {
  const key = `${state.person} ${state.model} ${state.editor}`;
  if (key === built) return false;
  built = key;
  const person = payload.people[state.person],
    editor = payload.people[state.editor],
    own = editing();
  const kind = model().kind;
  people.value = String(state.person);
  models.value = String(state.model);
  const others = [...view().others.keys()];
  editors.replaceChildren(
    element("option", { value: String(state.person) }, "this person"),
    ...others.map((other) => element("option", { value: String(other) }, payload.people[other].id)),
  );
  editors.value = String(state.editor);
  editors.disabled = !others.length;
  at("editor-note").textContent = others.length
    ? ""
    : `Nothing says how the ratings of others move the lists of ${model().label}.`;
  at("whose").textContent = byOther()
    ? `Ratings of ${editor.id}`
    : model().acts === "seen"
      ? "Ratings they gave"
      : "Ratings they could give";
  at("which").textContent = which(kind, own.acted.length, byOther() ? editor.id : "they");
  at("list-of").textContent = byOther() ? `What ${person.id} is shown then` : "What they are shown then";
  at("precomputed").hidden = kind === "affine";
  at("precomputed").textContent =
    kind === "fixed"
      ? `${model().label} shows the same whatever is rated here: ${model().rule}.`
      : `${model().label} follows ratings in a way that this page cannot compute. What follows was worked out beforehand: pick a title above and try its answer.`;
  at("rule").textContent = model().rule;
  ratings.build(own, model(), payload.titles, kind === "affine");
  at("ratings-box").hidden = !own.acted.length;
  at("about-person").textContent = person.about;
  const history = [...person.history].sort((one, two) => two[1] - one[1] || one[0] - two[0]);
  at("history-count").textContent = `What they have rated: ${plural(history.length, "title")}`;
  at("history").replaceChildren(
    ...history.map(([item, rating]) => element("li", {}, named(payload.titles[item]), ` ${inStars(rating)}`)),
  );
  at("tastes").hidden = !payload.genres.names.length || !payload.interests(state.person).some((part) => part > 0);
  at("weight-knob").hidden = at("tastes").hidden || kind === "searched";
  at("chance-knob").hidden = at("odds-note").hidden = kind === "searched";
  at("list").classList.toggle("bare", kind === "searched");
  tastes.build(payload.interests(state.person));
  shownWish = "";
  return true;
}

/** @param {string} kind @param {number} many @param {string} who */
function which(kind, many, who) {
  if (kind === "fixed" || !many) return "";
  const all = payload.people[state.editor].history.length;
  if (model().acts === "seen")
    return `${many} of the ${plural(all, "rating")} that ${who} gave. Change any, and watch the list.`;
  const next =
    model().acts === "next"
      ? `These ${many} titles come next for ${byOther() ? who : "them"}`
      : `These ${many} titles may be rated`;
  return `${next}. Rate any, and watch the list. A title without stars counts as what the recommender expects.`;
}

/** Everything that follows from the state. */
function show() {
  const whole = `${state.person} ${state.model} ${state.editor} ${state.beta} ${state.weight}`;
  const anew = build();
  if (whole !== show.of)
    before = outcomeOf(
      payload,
      state,
      editing().now.map(() => null),
    );
  const same = whole === show.of;
  show.of = whole;
  const now = outcomeOf(payload, state),
    seen = view();
  const wish = state.wish === null ? null : (seen.rowOf.get(state.wish) ?? null);
  const listed = wish !== null && (byOther() || seen.free[wish]) ? wish : null;
  ratings.show(state.stars);
  list.show(
    seen.rows,
    now,
    before,
    listed,
    state.weight === 0 && !(model().kind === "searched" && now !== before && state.stars.some((star) => star !== null)),
  );
  tastes.show(
    payload.interests(state.person),
    now.rows.map((row) => seen.rows[row]),
    before.rows.map((row) => seen.rows[row]),
  );
  at("reset").hidden = state.stars.every((star) => star === null);
  showKnobs();
  showWish(listed);
  const fresh = now.rows.filter((row) => !before.rows.includes(row)).length;
  at("changed").textContent = fresh
    ? `${fresh} of the ${now.rows.length} titles are new.`
    : state.stars.some((star) => star !== null)
      ? "The same titles as without these ratings."
      : "";
  const former = latest?.rows ?? [];
  if (anew) at("live").textContent = "";
  else if (!same)
    at("live").textContent =
      `${now.rows.filter((row) => !former.includes(row)).length} of the ${now.rows.length} titles in the list changed.`;
  else if (latest !== null) at("live").textContent = told(at("live").textContent ?? "", spoken(now, listed, fresh));
  latest = now;
}
show.of = "";

/** What a screen reader says after a change. @param {Outcome} now @param {number | null} wish @param {number} fresh */
function spoken(now, wish, fresh) {
  const parts = [
    fresh ? `${fresh} of the ${now.rows.length} titles in the list are new` : "the list has the same titles",
  ];
  if (wish !== null) {
    const place = now.places.get(wish),
      was = before.places.get(wish);
    const title = payload.titles[view().rows[wish]];
    if (place !== undefined && was !== undefined)
      parts.unshift(
        `${title} is ${place === was ? "still" : "now"} ${ordinal(place)}${place === was ? "" : `, was ${ordinal(was)}`}`,
      );
  }
  return parts;
}

function showKnobs() {
  const turned = Math.log2(state.beta / model().beta);
  chance.value = String(-turned);
  const said =
    Math.abs(turned) < 1e-9
      ? "as in the audit"
      : turned < 0
        ? "more chance than in the audit"
        : "less chance than in the audit";
  chance.setAttribute("aria-valuetext", said);
  at("chance-said").textContent = said;
  at("beta").textContent = state.beta.toPrecision(3);
  weight.value = String(state.weight);
  weight.setAttribute("aria-valuetext", `${Math.round(100 * state.weight)}%`);
  at("weight-said").textContent = state.weight ? `${Math.round(100 * state.weight)}%` : "off: by the scores alone";
}

/** The answer about the title that is wished for. @param {number | null} row */
function showWish(row) {
  const key = `${built} ${state.wish} ${state.beta} ${state.weight}`;
  if (key === shownWish) return;
  shownWish = key;
  const seen = view(),
    box = at("answer");
  search.value = state.wish === null ? "" : payload.titles[state.wish];
  offer();
  box.replaceChildren();
  if (state.wish === null) return;
  if (row === null) {
    const rated = payload.people[state.person].history.some(([item]) => item === state.wish);
    box.append(
      element(
        "p",
        {},
        named(payload.titles[state.wish]),
        rated
          ? " is rated already: it is not recommended again."
          : " is one of the titles to be rated here: it is not recommended again.",
      ),
    );
    return;
  }
  const look = (/** @type {(number | null)[]} */ stars) => {
    const found = outcomeOf(payload, { ...state, weight: 0 }, stars);
    return { place: found.places.get(row) ?? Infinity, chance: found.chances[row] };
  };
  if (state.weight > 0)
    box.append(
      element(
        "p",
        {},
        "This is about the list by scores alone. The one below keeps to tastes as well: that knob is turned.",
      ),
    );
  const lines = byOther()
    ? answerOfOther(row, seen, editing(), state.editor, model(), payload.titles, look)
    : answer(row, seen, model(), payload.titles, standings, look, state.beta === model().beta);
  for (const { text, stars, button } of lines) {
    const line = element("p", {}, ...text);
    box.append(line);
    if (stars && button) {
      const act = element("button", { type: "button", class: lines[0].text === text ? "try" : "try second" }, button);
      act.addEventListener("click", () => {
        change((next) => {
          next.stars = [...stars];
        }, true);
        at("list-of").scrollIntoView({ block: "nearest" });
      });
      line.append(" ", act);
    }
  }
}

/** Titles under the search box. */
function offer() {
  const typed = search.value.trim(),
    seen = view(),
    rows = [...before.places.keys()];
  const chosen = state.wish !== null && typed === payload.titles[state.wish];
  const found = chosen
    ? []
    : typed
      ? matching(typed, rows, seen, payload.titles, 8).map((row) => ({
          row,
          takes: byOther() ? "" : takes(row, seen, standings),
        }))
      : byOther()
        ? (seen.others.get(state.editor)?.moved ?? []).slice(0, 6).map((row) => ({ row, takes: "" }))
        : suggestions(seen, standings, rows, model().n);
  at("offer-note").textContent =
    chosen || found.length === 0
      ? typed && !chosen
        ? "No such title, or it is rated already."
        : ""
      : typed
        ? ""
        : "For instance:";
  at("offers").replaceChildren(
    ...found.map(({ row, takes: said }) => {
      const button = element(
        "button",
        { type: "button" },
        named(payload.titles[seen.rows[row]]),
        ...(said ? [element("small", {}, said)] : []),
      );
      button.addEventListener("click", () => {
        change((next) => {
          next.wish = seen.rows[row];
        }, true);
        at("answer").focus();
      });
      return element("li", {}, button);
    }),
  );
}

people.append(
  ...payload.people.map((person, place) =>
    element("option", { value: String(place) }, `${person.id}${person.about ? `: ${person.about}` : ""}`),
  ),
);
models.append(...payload.models.map((one, place) => element("option", { value: String(place) }, one.label)));
people.addEventListener("change", () =>
  change((next) => Object.assign(next, fresh(payload, Number(people.value), state.model)), true),
);
models.addEventListener("change", () =>
  change((next) => Object.assign(next, fresh(payload, state.person, Number(models.value)), { wish: state.wish }), true),
);
editors.addEventListener("change", () =>
  change((next) => {
    next.editor = Number(editors.value);
    next.stars = payload.view(next.editor, state.model).acted.map(() => null);
  }, true),
);
search.addEventListener("input", offer);
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  /** @type {HTMLElement | null} */ (at("offers").querySelector("button"))?.click();
});
search.addEventListener("search", () => {
  if (!search.value)
    change((next) => {
      next.wish = null;
    }, true);
});
const turn = (/** @type {boolean} */ done) =>
  change((next) => {
    next.beta = model().beta * 2 ** -Number(chance.value);
  }, done);
const weigh = (/** @type {boolean} */ done) =>
  change((next) => {
    next.weight = Number(weight.value);
  }, done);
chance.min = String(-TURNS);
chance.max = String(TURNS);
for (const [input, act] of /** @type {[HTMLInputElement, (done: boolean) => void][]} */ ([
  [chance, turn],
  [weight, weigh],
])) {
  input.addEventListener("input", () => act(false));
  input.addEventListener("change", () => act(true));
}
at("reset").addEventListener("click", () =>
  change((next) => {
    next.stars = next.stars.map(() => null);
  }, true),
);
window.addEventListener("hashchange", () => {
  if (location.hash === written(state, payload)) return;
  state = read(location.hash, payload);
  latest = null;
  show();
});
show();
document.documentElement.dataset.ready = "yes";
