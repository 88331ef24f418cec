// The page's data: arrays are unpacked when they are first looked at.
import { affineScores } from "./twin.js";

/**
 * @typedef {import("./twin.js").Genres} Genres
 * @typedef {import("./twin.js").TieKeys} TieKeys
 * @typedef {{moved: number[], slope: string, intercept: string}} Moved
 * @typedef {{row: number, standing: number, stars: number[] | null, list: number[] | null}} Answer
 * @typedef {{acted: number[], now: number[], rows: string, base: string, slope?: string, intercept?: string,
 *   best?: string, sure?: string, least?: string, standing?: string, lower?: string, answers?: Answer[],
 *   others?: Record<string, Moved>}} PackedView
 * @typedef {{id: string, key: string, about: string, history: [number, number][], interests: string, views: PackedView[]}} Person
 * @typedef {{label: string, kind: "affine" | "searched" | "fixed", rule: string, beta: number, n: number,
 *   stars: number[], acts: string}} Model
 * @typedef {{titles: string[], keys: string, genres: string[], system?: string, indptr?: string, indices?: string,
 *   shares?: string}} Items
 * @typedef {{data: string, version: string, kept: string, standings: string[], items: Items, models: Model[],
 *   first: number, people: Person[]}} Packed
 */

/** A rating that is not changed, in place of a star. */
export const STAYS = 255;

/** @param {string} text @returns {ArrayBuffer} */
function bytes(text) {
  const raw = atob(text),
    found = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) found[at] = raw.charCodeAt(at);
  return found.buffer;
}

/** @param {string | undefined} text */
const floats = (text) => new Float64Array(bytes(text ?? ""));
/** @param {string | undefined} text */
const wholes = (text) => new Uint32Array(bytes(text ?? ""));
/** @param {string} text */
const hashes = (text) => new BigUint64Array(bytes(text));
/** @param {string | undefined} text */
const small = (text) => new Uint8Array(bytes(text ?? ""));

/** What one person sees of one model. */
export class View {
  /** @param {PackedView} packed */
  constructor(packed) {
    this.packed = packed;
    this.acted = packed.acted;
    this.now = packed.now;
    this.rows = wholes(packed.rows);
    this.base = floats(packed.base);
    this.slope = floats(packed.slope);
    this.intercept = floats(packed.intercept);
    this.answers = packed.answers ?? [];
    this.best = small(packed.best);
    this.sure = small(packed.sure);
    this.least = small(packed.least);
    this.standing = small(packed.standing);
    this.lower = small(packed.lower);
    this.rowOf = new Map(Array.from(this.rows, (item, row) => [item, row]));
    /** Which rows may be in the list: all, and all but those whose ratings are free. */
    this.all = new Uint8Array(this.rows.length).fill(1);
    this.free = Uint8Array.from(this.all);
    for (const item of this.acted) {
      const row = this.rowOf.get(item);
      if (row !== undefined) this.free[row] = 0;
    }
    /** @type {Map<number, {moved: number[], slope: Float64Array, intercept: Float64Array}>} */
    this.others = new Map(
      Object.entries(packed.others ?? {}).map(([editor, own]) => [
        Number(editor),
        { moved: own.moved, slope: floats(own.slope), intercept: floats(own.intercept) },
      ]),
    );
  }

  /** The stars of a row in such a table. @param {Uint8Array} table @param {number} row */
  stars(table, row) {
    return table.slice(row * this.acted.length, (row + 1) * this.acted.length);
  }

  /** Scores after own ratings, one for each acted item. @param {number[]} ratings */
  own(ratings) {
    return this.slope.length ? affineScores(this.slope, this.intercept, ratings) : this.base;
  }

  /** Scores after another person's ratings. @param {number} editor @param {number[]} ratings */
  after(editor, ratings) {
    const scores = Float64Array.from(this.base),
      other = this.others.get(editor);
    if (other === undefined) return scores;
    affineScores(other.slope, other.intercept, ratings).forEach((score, at) => {
      scores[other.moved[at]] = score;
    });
    return scores;
  }
}

/** @param {Items} items @returns {Genres} */
function readGenres(items) {
  const count = items.titles.length;
  const indptr = items.indptr ? wholes(items.indptr) : new Uint32Array(count + 1);
  const indices = wholes(items.indices),
    shares = floats(items.shares),
    vectorOf = new Int32Array(count);
  /** @type {Map<string, number>} */
  const known = new Map();
  for (let item = 0; item < count; item += 1) {
    const from = indptr[item],
      to = indptr[item + 1];
    const key = `${indices.subarray(from, to)}:${shares.subarray(from, to)}`;
    if (!known.has(key)) known.set(key, known.size);
    vectorOf[item] = known.get(key) ?? 0;
  }
  return { names: items.genres, indptr, indices, shares, vectorOf };
}

/** Everything that is on the page. */
export class Payload {
  /** @param {Packed} packed */
  constructor(packed) {
    this.packed = packed;
    this.people = packed.people;
    this.models = packed.models;
    this.titles = packed.items.titles;
    this.genres = readGenres(packed.items);
    /** @type {Map<string, View>} */
    this.views = new Map();
    /** @type {Map<number, Float64Array>} */
    this.tastes = new Map();
    this.keys = hashes(packed.items.keys);
    /** @type {Map<View, BigUint64Array>} */
    this.keysOf = new Map();
  }

  /** @param {number} person @param {number} model @returns {View} */
  view(person, model) {
    const key = `${person} ${model}`;
    const made = this.views.get(key) ?? new View(this.people[person].views[model]);
    this.views.set(key, made);
    return made;
  }

  /** What decides between tied rows of a view. @param {number} person @param {number} model @returns {TieKeys} */
  ties(person, model) {
    const view = this.view(person, model);
    const items = this.keysOf.get(view) ?? BigUint64Array.from(view.rows, (item) => this.keys[item]);
    this.keysOf.set(view, items);
    return { user: hashes(this.people[person].key)[0], items };
  }

  /** (genres,): p(g|u). @param {number} person @returns {Float64Array} */
  interests(person) {
    const made = this.tastes.get(person) ?? floats(this.people[person].interests);
    this.tastes.set(person, made);
    return made;
  }
}
