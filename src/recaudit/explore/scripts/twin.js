// What the page computes with: the same arithmetic as recaudit's, number by number (tests/explore/twin.py).

/** Scores are tied where no gap wider than this part of the largest lies between them (recaudit.ties). */
export const TIE = 1e-10;
/** Alpha of C_KL (recaudit.solvers.lists.objective). */
export const SMOOTHING = 0.01;
const NEGLIGIBLE = 1e-200;

/**
 * Scores of all rows: intercept + slope a, summed from the first rating to the last.
 * @param {Float64Array} slope (rows, ratings), row after row
 * @param {Float64Array} intercept (rows,)
 * @param {ArrayLike<number>} ratings
 * @returns {Float64Array}
 */
export function affineScores(slope, intercept, ratings) {
  const scores = new Float64Array(intercept.length),
    count = ratings.length;
  for (let row = 0, at = 0; row < scores.length; row += 1) {
    let total = intercept[row];
    for (let place = 0; place < count; place += 1, at += 1) total += slope[at] * ratings[place];
    scores[row] = total;
  }
  return scores;
}

/**
 * The largest absolute score of the free rows.
 * @param {Float64Array} scores @param {Uint8Array} free
 */
function largestOf(scores, free) {
  let largest = 0;
  for (let row = 0; row < scores.length; row += 1) if (free[row]) largest = Math.max(largest, Math.abs(scores[row]));
  return largest;
}

/**
 * Hashes of ids, of which tie keys are made (recaudit.ties): of the user, and of the item of each row.
 * @typedef {{user: bigint, items: BigUint64Array}} TieKeys
 */

/**
 * The finalizer of splitmix64.
 * @param {bigint} bits @returns {bigint}
 */
function mix(bits) {
  const first = BigInt.asUintN(64, (bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n);
  const second = BigInt.asUintN(64, (first ^ (first >> 27n)) * 0x94d049bb133111ebn);
  return second ^ (second >> 31n);
}

/**
 * The tie key of a pair, from the hashes of both ids: the item with the lowest one goes first (recaudit.ties).
 * @param {bigint} user @param {bigint} item @returns {bigint}
 */
export function pairKey(user, item) {
  return mix(BigInt.asUintN(64, mix(user) + item));
}

/**
 * Tied rows in the order in which they go.
 * @param {number[]} rows @param {TieKeys} ties @returns {number[]}
 */
function byKey(rows, ties) {
  const keys = new Map(rows.map((row) => [row, pairKey(ties.user, ties.items[row])]));
  /** @param {number} row */
  const key = (row) => keys.get(row) ?? 0n;
  return rows.sort((one, two) => (key(one) < key(two) ? -1 : key(one) > key(two) ? 1 : one - two));
}

/**
 * The free rows, highest score first; of tied ones, which small gaps link, the one with the lowest tie key goes first.
 * @param {Float64Array} scores @param {Uint8Array} free @param {TieKeys} ties
 * @returns {number[]}
 */
export function ordered(scores, free, ties) {
  /** @type {number[]} */
  const rows = [];
  for (let row = 0; row < scores.length; row += 1) if (free[row]) rows.push(row);
  rows.sort((one, two) => scores[two] - scores[one] || one - two);
  const gap = TIE * largestOf(scores, free);
  for (let start = 0, end = 1; end <= rows.length; end += 1) {
    if (end < rows.length && scores[rows[end - 1]] - scores[rows[end]] <= gap) continue;
    if (end - start > 1) byKey(rows.slice(start, end), ties).forEach((row, place) => (rows[start + place] = row));
    start = end;
  }
  return rows;
}

/**
 * The probability of each row under softmax; 0 for those that are not free.
 * @param {Float64Array} scores @param {Uint8Array} free @param {number} beta
 * @returns {Float64Array}
 */
export function chances(scores, free, beta) {
  let top = -Infinity,
    total = 0;
  for (let row = 0; row < scores.length; row += 1) if (free[row]) top = Math.max(top, scores[row]);
  const found = new Float64Array(scores.length);
  for (let row = 0; row < scores.length; row += 1) {
    if (free[row]) total += found[row] = Math.exp(beta * (scores[row] - top));
  }
  return found.map((weight) => weight / total);
}

/**
 * The catalogue's categories: of item i, genres `indices[indptr[i]..indptr[i + 1]]` with these shares; items with the
 * same of all are of one vector.
 * @typedef {{names: string[], indptr: Uint32Array, indices: Uint32Array, shares: Float64Array, vectorOf: Int32Array}} Genres
 */

/**
 * The part of each genre in a list of items.
 * @param {ArrayLike<number>} items @param {Genres} genres
 * @returns {Float64Array}
 */
export function shareOf(items, genres) {
  const found = new Float64Array(genres.names.length);
  for (let place = 0; place < items.length; place += 1) {
    const item = items[place];
    for (let at = genres.indptr[item]; at < genres.indptr[item + 1]; at += 1)
      found[genres.indices[at]] += genres.shares[at];
  }
  return items.length ? found.map((held) => held / items.length) : found;
}

/**
 * C_KL: how far a list with shares q is from the interests p; 0 is in proportion.
 * @param {Float64Array} p @param {Float64Array} q
 */
export function divergence(p, q) {
  let total = 0;
  for (let genre = 0; genre < p.length; genre += 1) {
    if (p[genre] > 0) total += p[genre] * Math.log(p[genre] / ((1 - SMOOTHING) * q[genre] + SMOOTHING * p[genre]));
  }
  return total;
}

/**
 * A list that keeps to the interests: each row in turn the best next one for (1 - weight) score - weight C_KL.
 * @param {Float64Array} scores @param {Uint8Array} free @param {Uint32Array} items the item of each row
 * @param {Genres} genres @param {Float64Array} interests @param {number} weight @param {number} size
 * @param {TieKeys} ties
 * @returns {number[]} rows
 */
export function calibrated(scores, free, items, genres, interests, weight, size, ties) {
  const { indptr, indices, shares, vectorOf } = genres;
  const p = interests.map((part) => (part < NEGLIGIBLE ? 0 : part));
  const left = Uint8Array.from(free),
    held = new Float64Array(p.length),
    largest = largestOf(scores, free);
  /** @type {number[]} */
  const list = [];
  /** @type {Map<number, {best: number, value: number}>} */
  const vectors = new Map();
  for (let row = 0; row < scores.length; row += 1) if (left[row]) lead(vectors, vectorOf[items[row]], row, scores);
  while (list.length < size && vectors.size) {
    const places = list.length + 1;
    let highest = -Infinity;
    for (const vector of vectors.values()) {
      const item = items[vector.best];
      let gain = 0;
      for (let at = indptr[item]; at < indptr[item + 1]; at += 1) {
        const genre = indices[at];
        if (p[genre] > 0) {
          const before = (1 - SMOOTHING) * held[genre] + SMOOTHING * places * p[genre];
          gain += p[genre] * Math.log1p(((1 - SMOOTHING) * shares[at]) / before);
        }
      }
      vector.value = (1 - weight) * scores[vector.best] + weight * gain;
      highest = Math.max(highest, vector.value);
    }
    const floor = highest - TIE * Math.max(Math.abs(highest), (1 - weight) * largest);
    let top = -Infinity;
    for (const vector of vectors.values()) if (vector.value >= floor) top = Math.max(top, scores[vector.best]);
    const level = top - TIE * largest;
    /** @type {number[]} */
    const tied = [];
    for (let row = 0; row < scores.length; row += 1) {
      if (!left[row] || scores[row] < level) continue;
      const vector = vectors.get(vectorOf[items[row]]);
      if (vector !== undefined && vector.value >= floor && scores[vector.best] >= level) tied.push(row);
    }
    const chosen = (tied.length > 1 ? byKey(tied, ties) : tied)[0];
    list.push(chosen);
    left[chosen] = 0;
    const item = items[chosen],
      vector = vectorOf[item];
    for (let at = indptr[item]; at < indptr[item + 1]; at += 1) held[indices[at]] += shares[at];
    vectors.delete(vector);
    for (let row = 0; row < scores.length; row += 1) {
      if (left[row] && vectorOf[items[row]] === vector) lead(vectors, vector, row, scores);
    }
  }
  return list;
}

/**
 * Make a row the best of its vector, if it is; of equal ones the first stays.
 * @param {Map<number, {best: number, value: number}>} vectors @param {number} vector @param {number} row
 * @param {Float64Array} scores
 */
function lead(vectors, vector, row, scores) {
  const known = vectors.get(vector);
  if (known === undefined) vectors.set(vector, { best: row, value: 0 });
  else if (scores[row] > scores[known.best]) known.best = row;
}
