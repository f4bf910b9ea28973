// Times in two columns, the date in one and the time of day in the other. They are read as one text with a space
// between, as `discreet_client.readers` reads `Date+Time`.

import { isMissing } from "./table_text.js";

const DAY = /^\d{1,4}([./-])\d{1,2}\1\d{1,4}$/;
const CLOCK = /^\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( *[ap]m)?$/i;

// Whether the cells of a column may be times.
export const holdsTimes = (column) => column.minutes !== null || ["times", "moments"].includes(column.holds);

export const isClock = (text) => CLOCK.test(text);

// Whether this is half a time: a date alone, or a time of day alone.
export const isHalf = (text) => DAY.test(text) || CLOCK.test(text);

// The text of a row in a column, or in its two columns; empty if one of them lacks a value.
export function joined(values, { place, clock = null }) {
  const own = (values[place] ?? "").trim();
  if (clock === null) return own;
  const other = (values[clock] ?? "").trim();
  return isMissing(own) || isMissing(other) ? "" : `${own} ${other}`;
}

// [the column of dates, the column of times of day], judged by the first rows, if the chosen column is one of the two
// and exactly one column fits as the other; null otherwise. `others`: places of columns that have another role already.
export function halves(rows, width, chosen, others) {
  const all = (place, like) => {
    const cells = rows.map((row) => (row[place] ?? "").trim()).filter((one) => !isMissing(one));
    return cells.length > 0 && cells.every((one) => like.test(one));
  };
  const only = (like) => {
    const found = Array.from({ length: width }, (_, place) => place).filter((place) => place !== chosen && !others.has(place) && all(place, like));
    return found.length === 1 ? found[0] : null;
  };
  const [day, clock] = all(chosen, DAY) ? [chosen, only(CLOCK)] : all(chosen, CLOCK) ? [only(DAY), chosen] : [null, null];
  return day === null || clock === null ? null : [day, clock];
}
