// "What would it take to see ...?": the answer in words, and the ratings to try.
import { asGiven } from "./ratings.js";
import { element, inStars, listing, named, ordinal, percent, plural } from "./words.js";

/**
 * @typedef {import("./payload.js").View} View
 * @typedef {import("./payload.js").Model} Model
 * @typedef {import("./address.js").State} State
 * @typedef {(stars: (number | null)[]) => {place: number, chance: number}} Look where the title stands with such ratings
 * @typedef {{text: (string | Node)[], stars?: (number | null)[], button?: string}} Line
 */

/** How many ratings these stars give. @param {(number | null)[]} stars */
const count = (stars) => stars.filter((star) => star !== null).length;

/** "Alien 5 stars and Heat 1 star". @param {(number | null)[]} stars @param {View} view @param {Model} model @param {string[]} titles */
function gifts(stars, view, model, titles) {
  /** @type {(string | Node)[]} */
  const found = [];
  const given = stars.flatMap((star, at) =>
    star === null ? [] : [{ title: titles[view.acted[at]], value: model.stars[star] }],
  );
  given.forEach(({ title, value }, at) => {
    if (at) found.push(at === given.length - 1 ? " and " : ", ");
    found.push(element("strong", {}, named(title), ` ${inStars(value)}`));
  });
  return found;
}

/**
 * What it takes to bring a title into the list, as lines with ratings to try.
 * @param {number} row @param {View} view @param {Model} model @param {string[]} titles @param {string[]} standings
 * @param {Look} look @param {boolean} asAudited whether chance is as it was when the best ratings were looked for
 * @returns {Line[]}
 */
export function answer(row, view, model, titles, standings, look, asAudited) {
  const title = () => named(titles[view.rows[row]]),
    nothing = view.now.map(() => null),
    now = look(nothing);
  const searched = view.answers.find((one) => one.row === row);
  const standing = standings[searched?.standing ?? (view.standing.length ? view.standing[row] : 0)];
  const stars = searched ? asGiven(searched.stars ?? []) : asGiven(view.stars(view.least, row));
  const first = `the first ${model.n}`;
  /** @type {Line[]} */
  const lines = [];
  if (now.place <= model.n) {
    lines.push({ text: [title(), ` is there already: it is ${ordinal(now.place)}, without any change.`] });
  } else if (standing === "least" || standing === "some") {
    const many = count(stars);
    const sure =
      standing === "least"
        ? many === 1
          ? "One rating is enough."
          : `These ${many} ratings are enough, and fewer are not.`
        : searched
          ? "Found by trying; fewer may do."
          : `Fewer than ${plural(Math.max(1, view.lower[row]), "rating")} are not enough; whether fewer than ${many} are is not known.`;
    lines.push({
      text: ["Give ", ...gifts(stars, view, model, titles), `. Then `, title(), ` is among ${first}. ${sure}`],
      stars,
      button: "Try it",
    });
  } else if (standing === "impossible") {
    lines.push({
      text: [
        element("strong", {}, "It cannot be done. "),
        `Whatever these ${view.acted.length} ratings are, `,
        title(),
        ` stays out of ${first}. This is proved, not just not found.`,
      ],
    });
  } else if (standing === "open") {
    lines.push({ text: [`No way was found to bring `, title(), ` into ${first}, and none was ruled out.`] });
  } else {
    lines.push({
      text: [
        title(),
        ` is ${ordinal(now.place)} now. What it takes to bring it into ${first} was not worked out beforehand.`,
      ],
    });
  }
  if (view.best.length) {
    const best = asGiven(view.stars(view.best, row)),
      there = look(best);
    if (count(best)) {
      lines.push({
        text: [
          view.sure[row] ? "The ratings that make it most likely" : "The best ratings that were found",
          asAudited ? " put it " : ", with chance as in the audit, put it ",
          element("strong", {}, ordinal(there.place)),
          ` (now ${ordinal(now.place)}), with a chance of ${percent(there.chance)} to be the one title shown (now ${percent(now.chance)}).`,
        ],
        stars: best,
        button: "Try the best ratings",
      });
    }
  }
  return lines;
}

/**
 * The same for another person's ratings: by the direction of each, which is not proved to be the least.
 * @param {number} row @param {View} view @param {View} editing @param {number} editor @param {Model} model
 * @param {string[]} titles @param {Look} look
 * @returns {Line[]}
 */
export function answerOfOther(row, view, editing, editor, model, titles, look) {
  const other = view.others.get(editor),
    at = other?.moved.indexOf(row) ?? -1;
  const now = look(editing.now.map(() => null)),
    title = named(titles[view.rows[row]]);
  if (other === undefined || at < 0) {
    return [
      {
        text: [
          title,
          ` is ${ordinal(now.place)}. It is not among the titles that the other person rates here, and only those move.`,
        ],
      },
    ];
  }
  const width = editing.acted.length,
    last = model.stars.length - 1;
  const stars = editing.now.map((_, place) => {
    const slope = other.slope[at * width + place];
    return slope > 0 ? last : slope < 0 ? 0 : null;
  });
  const there = look(stars);
  return [
    {
      text: [
        "If the other person gives ",
        ...gifts(stars, editing, model, titles),
        ", ",
        title,
        ` is ${ordinal(there.place)} (now ${ordinal(now.place)}). Worked out here by the direction of each rating; not proved to be the least that does it.`,
      ],
      stars,
      button: "Try it",
    },
  ];
}

/**
 * Titles to begin with: some that take one rating, two, more, and one that cannot be had.
 * @param {View} view @param {string[]} standings @param {number[]} order rows, best first @param {number} n
 * @returns {{row: number, takes: string}[]}
 */
export function suggestions(view, standings, order, n) {
  /** @type {{row: number, takes: string}[]} */
  const found = [];
  /** @param {number} most @param {(row: number) => boolean} fits @param {boolean} far */
  const add = (most, fits, far) => {
    const rows = order.slice(n).filter(fits);
    for (const row of (far ? rows.reverse() : rows).slice(0, most))
      found.push({ row, takes: takes(row, view, standings) });
  };
  if (view.answers.length)
    return view.answers
      .filter((one) => one.stars)
      .slice(0, 6)
      .map(({ row }) => ({ row, takes: takes(row, view, standings) }));
  const least = (/** @type {number} */ row) =>
    standings[view.standing[row]] === "least" ? count(asGiven(view.stars(view.least, row))) : 0;
  if (!view.standing.length) return found;
  add(2, (row) => least(row) === 1, true);
  add(2, (row) => least(row) === 2, true);
  add(1, (row) => least(row) > 2, true);
  add(1, (row) => standings[view.standing[row]] === "impossible", false);
  return found;
}

/** What a title takes, in two words. @param {number} row @param {View} view @param {string[]} standings */
export function takes(row, view, standings) {
  const searched = view.answers.find((one) => one.row === row);
  const standing = standings[searched?.standing ?? (view.standing.length ? view.standing[row] : 0)];
  if (standing === "impossible") return "out of reach";
  if (standing !== "least" && standing !== "some") return "";
  const many = count(searched ? asGiven(searched.stars ?? []) : asGiven(view.stars(view.least, row)));
  if (!many) return "there already";
  return `takes ${plural(many, "rating")}${standing === "least" ? "" : " or fewer"}`;
}

/** Titles that hold all typed words: the typed title itself first, then those that begin with the first word. @param {string} typed @param {number[]} rows @param {View} view @param {string[]} titles @param {number} most */
export function matching(typed, rows, view, titles, most) {
  const words = typed.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const whole = words.join(" ");
  const rank = (/** @type {string} */ name) => (name === whole ? 0 : name.startsWith(words[0]) ? 1 : 2);
  const names = rows.map((row) => ({ row, name: titles[view.rows[row]].toLocaleLowerCase() }));
  const fits = names.filter(({ name }) => words.every((word) => name.includes(word)));
  return fits
    .sort((one, two) => rank(one.name) - rank(two.name))
    .slice(0, most)
    .map(({ row }) => row);
}

/** What changed, for those who listen; the same words once more are said again. @param {string} before @param {string[]} parts */
export function told(before, parts) {
  const text = `${listing(parts)}.`;
  return text === before ? `${text} ` : text;
}
