// How times, names and numbers are written.

const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const INSTANT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const NUMBER = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

/** Write a moment of the API ({at, precision}), an instant, or nothing. */
export function when(moment) {
  if (!moment) return "";
  if (moment === "open") return "no end planned";
  if (typeof moment === "string") return INSTANT.format(new Date(moment));
  return (moment.precision === "day" ? DAY : INSTANT).format(new Date(moment.at));
}

/** Write how long ago an instant was. */
export function ago(instant) {
  const seconds = Math.max(0, (Date.now() - new Date(instant).getTime()) / 1000);
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const number = (value) => NUMBER.format(value);
export const short = (value) => SHORT.format(value);
export const milliseconds = (value) => (value < 10 ? `${value.toFixed(1)} ms` : `${NUMBER.format(Math.round(value))} ms`);
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

const names = new Map();

/** Remember the display names of entities. */
export function remember(entities) {
  for (const entity of entities) names.set(entity.id, entity.name);
}

/** The name of an entity id, or the id. */
export const nameOf = (id) => names.get(id) ?? id;

/** Write `level/entity` by its name. */
export function scopeName(scope) {
  const [level, ...rest] = scope.split("/");
  const name = nameOf(rest.join("/"));
  return level === "personal" ? `${name}, personal` : name;
}

export const plain = (name) => name.replaceAll("_", " ").replaceAll("-", " ");

/** What a contradiction is about. */
export const subjectOf = (pair) => capital(pair.attribute || `a difference in ${pair.difference}`);

/** In what its sides differ; which is newer is shown at the sides. */
export const differs = (pair) => pair.detail.replace(/ \(newer: .*\)$/, "");

export const capital = (words) => words.charAt(0).toLocaleUpperCase() + words.slice(1);
