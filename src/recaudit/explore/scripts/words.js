// How numbers and answers are said.

/** @param {number} place @returns {string} */
export function ordinal(place) {
  const teen = Math.floor(place / 10) % 10 === 1;
  return `${place}${teen ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[place % 10] ?? "th")}`;
}

/** @param {number} count @param {string} noun */
export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** A probability. @param {number} part */
export function percent(part) {
  if (part === 0 || part === 1) return `${100 * part}%`;
  if (part < 0.0001) return "under 0.01%";
  const digits = part < 0.01 ? 2 : part < 0.1 ? 1 : 0;
  return `${(100 * part).toFixed(digits)}%`;
}

/** A rating. @param {number} value */
export function rated(value) {
  return String(Math.round(value * 10) / 10);
}

/** @param {number} value */
export function inStars(value) {
  return `${rated(value)} ${value === 1 ? "star" : "stars"}`;
}

/** @param {string[]} parts */
export function listing(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}

/**
 * An element with text or others inside. Text from data is never markup.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {...(string | Node)} inside
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** A title, in its own direction. @param {string} text */
export const named = (text) => element("bdi", { class: "title" }, text);

/** The element of this id. @param {string} id @returns {HTMLElement} */
export function at(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found;
}
