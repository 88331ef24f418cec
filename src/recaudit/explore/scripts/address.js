// The state of the page, and how it stands in the address, so that a view can be sent.

/**
 * @typedef {import("./payload.js").Payload} Payload
 * @typedef {{person: number, model: number, editor: number, stars: (number | null)[], beta: number, weight: number,
 *   wish: number | null}} State
 *   `stars`: which star each free rating takes, null where it is as it was.
 */

/** As the page opens. @param {Payload} payload @param {number} [person] @param {number} [model] @returns {State} */
export function fresh(payload, person = 0, model = payload.packed.first) {
  const acted = payload.view(person, model).acted;
  return {
    person,
    model,
    editor: person,
    stars: acted.map(() => null),
    beta: payload.models[model].beta,
    weight: 0,
    wish: null,
  };
}

/** @param {State} state @param {Payload} payload @returns {string} */
export function written(state, payload) {
  const parts = new URLSearchParams({
    user: payload.people[state.person].id,
    model: payload.models[state.model].label,
  });
  if (state.editor !== state.person) parts.set("editor", payload.people[state.editor].id);
  const values = payload.models[state.model].stars;
  const given = state.stars.flatMap((star, place) => (star === null ? [] : [`${place + 1}:${values[star]}`]));
  if (given.length) parts.set("ratings", given.join(","));
  if (state.beta !== payload.models[state.model].beta) parts.set("beta", String(state.beta));
  if (state.weight) parts.set("weight", String(state.weight));
  if (state.wish !== null) parts.set("item", payload.titles[state.wish]);
  return `#${parts}`;
}

/** The state that an address tells; what it does not know of is as the page opens. @param {string} hash
 * @param {Payload} payload @returns {State} */
export function read(hash, payload) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const person = payload.people.findIndex((one) => one.id === parts.get("user"));
  const model = payload.models.findIndex((one) => one.label === parts.get("model"));
  const state = fresh(payload, Math.max(0, person), model < 0 ? undefined : model);
  const editor = payload.people.findIndex((one) => one.id === parts.get("editor"));
  if (payload.view(state.person, state.model).others.has(editor)) {
    state.editor = editor;
    state.stars = payload.view(editor, state.model).acted.map(() => null);
  }
  const values = payload.models[state.model].stars;
  for (const given of (parts.get("ratings") ?? "").split(",")) {
    const [place, value] = given.split(":").map(Number),
      star = values.indexOf(value);
    if (place >= 1 && place <= state.stars.length && star >= 0) state.stars[place - 1] = star;
  }
  const beta = Number(parts.get("beta") ?? NaN),
    weight = Number(parts.get("weight") ?? NaN);
  if (beta > 0 && beta <= 1e4) state.beta = beta;
  if (weight >= 0 && weight <= 1 && payload.genres.names.length) state.weight = weight;
  const wish = payload.titles.indexOf(parts.get("item") ?? "");
  if (wish >= 0) state.wish = wish;
  return state;
}
