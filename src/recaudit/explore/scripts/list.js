// The list, and how it compares with the person's tastes.
import { divergence, shareOf } from "./twin.js";
import { element, named, percent } from "./words.js";

/**
 * @typedef {import("./payload.js").Payload} Payload
 * @typedef {import("./outcome.js").Outcome} Outcome
 * @typedef {Record<"line" | "rank" | "title" | "about" | "moved" | "meter" | "chance", HTMLElement>} Line
 */

const GENRES = 12;

/** Ten lines that are made once and filled anew. */
export class List {
  /** @param {HTMLElement} place @param {Payload} payload */
  constructor(place, payload) {
    this.place = place;
    this.payload = payload;
    /** @type {Line[]} */
    this.lines = [];
  }

  /** @param {number} count */
  reserve(count) {
    while (this.lines.length < count) {
      const parts = {
        rank: element("span", { class: "rank" }),
        title: named(""),
        about: element("span", { class: "genres" }),
        moved: element("span", { class: "moved" }),
        meter: element("span", { class: "bar" }),
        chance: element("span", { class: "chance" }),
      };
      const line = element(
        "li",
        {},
        parts.rank,
        element("span", { class: "what" }, parts.title, parts.about),
        parts.moved,
        element("span", { class: "odds" }, parts.meter, parts.chance),
      );
      this.lines.push({ line, ...parts });
      this.place.append(line);
    }
    this.lines.forEach(({ line }, at) => {
      line.hidden = at >= count;
    });
  }

  /**
   * @param {Uint32Array} items @param {Outcome} now @param {Outcome} before @param {number | null} wish its row
   * @param {boolean} byScore whether the list is that of the scores, so that a wish has a place in it
   */
  show(items, now, before, wish, byScore) {
    const below = wish !== null && !now.rows.includes(wish);
    const rows = below ? [...now.rows, wish] : now.rows;
    this.reserve(rows.length);
    const largest = Math.max(1e-300, ...rows.map((row) => now.chances[row]));
    rows.forEach((row, at) => {
      const own = this.lines[at],
        was = before.rows.indexOf(row),
        outside = below && at === rows.length - 1;
      const place = outside ? (now.places.get(row) ?? 0) : at + 1;
      const former = was >= 0 ? was + 1 : (before.places.get(row) ?? 0);
      own.rank.textContent = outside && !byScore ? "–" : String(place);
      own.title.textContent = this.payload.titles[items[row]];
      own.about.textContent = this.genres(items[row]);
      own.moved.textContent = outside && !byScore ? "not in the list" : movement(place, former, !outside && was < 0);
      own.moved.className = `moved ${place < former ? "up" : place > former ? "down" : ""}`;
      own.meter.style.setProperty("--part", String(now.chances[row] / largest));
      own.chance.textContent = percent(now.chances[row]);
      own.line.className = `${row === wish ? "wish" : ""} ${outside ? "outside" : ""} ${!outside && was < 0 ? "new" : ""}`;
    });
  }

  /** @param {number} item */
  genres(item) {
    const { indptr, indices, names } = this.payload.genres;
    return Array.from(indices.subarray(indptr[item], indptr[item + 1]), (genre) => names[genre]).join(", ");
  }
}

/** @param {number} place @param {number} former @param {boolean} isNew */
function movement(place, former, isNew) {
  if (place === former) return "";
  const from = `was ${former.toLocaleString("en")}`;
  return `${place < former ? "▲" : "▼"} ${isNew ? "new, " : ""}${from}`;
}

/** The genres of the person's history beside those of the list. */
export class Tastes {
  /** @param {HTMLElement} table @param {HTMLElement} verdict @param {Payload} payload */
  constructor(table, verdict, payload) {
    this.table = table;
    this.verdict = verdict;
    this.payload = payload;
    /** @type {{genre: number, bars: HTMLElement[], numbers: HTMLElement[]}[]} */
    this.lines = [];
  }

  /** @param {Float64Array} interests */
  build(interests) {
    const order = Array.from(interests, (part, genre) => ({ part, genre })).sort(
      (one, two) => two.part - one.part || one.genre - two.genre,
    );
    this.lines = [];
    this.table.replaceChildren(
      ...order.slice(0, GENRES).map(({ part, genre }) => {
        const bars = [element("span", { class: "bar tastes" }), element("span", { class: "bar listed" })];
        const numbers = [element("td", { class: "number" }, percent(part)), element("td", { class: "number" })];
        this.lines.push({ genre, bars, numbers });
        return element(
          "tr",
          {},
          element("th", { scope: "row" }, named(this.payload.genres.names[genre])),
          element("td", { class: "bars", "aria-hidden": "true" }, ...bars),
          ...numbers,
        );
      }),
    );
  }

  /** @param {Float64Array} interests @param {number[]} items of the list @param {number[]} former of the list before */
  show(interests, items, former) {
    const shares = shareOf(items, this.payload.genres),
      apart = divergence(interests, shares);
    const was = divergence(interests, shareOf(former, this.payload.genres));
    const largest = Math.max(1e-9, ...this.lines.flatMap(({ genre }) => [interests[genre], shares[genre]]));
    for (const { genre, bars, numbers } of this.lines) {
      bars[0].style.setProperty("--part", String(interests[genre] / largest));
      bars[1].style.setProperty("--part", String(shares[genre] / largest));
      numbers[1].textContent = percent(shares[genre]);
    }
    const moved = Math.abs(apart - was) < 5e-4 ? "" : ` It was ${was.toFixed(2)} before the ratings were changed.`;
    this.verdict.textContent = `Distance between tastes and list: ${apart.toFixed(2)}; 0 is the same proportions, 4.6 nothing in common.${moved}`;
  }
}
