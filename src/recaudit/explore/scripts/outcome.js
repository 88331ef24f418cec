// What follows from the state: a list, and how likely each title is.
import { calibrated, chances, ordered } from "./twin.js";
import { STAYS } from "./payload.js";
import { ratingsOf } from "./ratings.js";

/**
 * @typedef {import("./payload.js").Payload} Payload
 * @typedef {import("./address.js").State} State
 * @typedef {{rows: number[], places: Map<number, number>, chances: Float64Array}} Outcome
 *   `rows`: of the list; `places`: of every row by score, from 1.
 */

/**
 * With the state's ratings, or others.
 * @param {Payload} payload @param {State} state @param {(number | null)[]} [stars]
 * @returns {Outcome}
 */
export function outcomeOf(payload, state, stars = state.stars) {
  const view = payload.view(state.person, state.model),
    model = payload.models[state.model];
  const own = state.editor === state.person,
    free = own ? view.free : view.all;
  const given = ratingsOf(payload.view(state.editor, state.model), model, stars);
  const scores = own ? view.own(given) : view.after(state.editor, given);
  const tried = stars.some((star) => star !== null) ? triedAnswer(view, stars) : null;
  const ties = payload.ties(state.person, state.model),
    order = tried ?? ordered(scores, free, ties);
  const places = new Map(order.map((row, place) => [row, place + 1]));
  if (tried !== null) return { rows: tried, places, chances: new Float64Array(scores.length) };
  const rows =
    state.weight > 0
      ? calibrated(scores, free, view.rows, payload.genres, payload.interests(state.person), state.weight, model.n, ties)
      : order.slice(0, model.n);
  return { rows, places, chances: chances(scores, free, state.beta) };
}

/**
 * The list that was worked out beforehand for these ratings; null where none was.
 * @param {import("./payload.js").View} view @param {(number | null)[]} stars
 * @returns {number[] | null}
 */
function triedAnswer(view, stars) {
  const wanted = String(stars.map((star) => star ?? STAYS));
  return view.answers.find((one) => String(one.stars) === wanted)?.list ?? null;
}
