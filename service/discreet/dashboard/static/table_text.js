// The text of a file of values separated by commas or otherwise, as this browser reads it.

const FIRST_BYTES = 1 << 18; // enough to show the first rows
export const SHOWN_ROWS = 6;
const LONGEST_RECORD = 1 << 20;
const MOST_COLUMNS = 1000; // as the server reads them

// Encodings -----------------------------------------------------------------------------------------------------------

const WRITTEN = { "utf-16le": "UTF-16", "utf-16be": "UTF-16", "windows-1252": "Windows-1252, as Excel does in western Europe" };

async function isUtf8(file) {
  const reader = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
  try {
    while (!(await reader.read()).done);
    return true;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

// The file with its text in UTF-8, and its original encoding if that was different: UTF-16 is recognised by its first two
// bytes, and any other text that is not UTF-8 has one byte per character. If it has zero bytes then, it is not a text.
export async function inUtf8(file) {
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer()).join();
  const label = { "255,254": "utf-16le", "254,255": "utf-16be" }[start] ?? ((await isUtf8(file)) ? null : "windows-1252");
  if (label === null) return { file, written: "" };
  const text = new TextDecoder(label).decode(await file.arrayBuffer());
  if (text.includes("\0")) throw new Error("it is not a text");
  return { file: new File([text], file.name, { type: "text/csv" }), written: WRITTEN[label] };
}

// Records of a CSV text -----------------------------------------------------------------------------------------------

function isOpen(record) {
  let open = false;
  for (let at = record.indexOf('"'); at >= 0; at = record.indexOf('"', at + 1)) open = !open;
  return open;
}

// Cuts text into records; the rest is the beginning of the next one.
function cut(text, isLast) {
  const lines = text.split("\n");
  const tail = isLast ? null : lines.pop();
  const records = [];
  let parts = []; // lines of an open record; each is scanned once
  let length = 0;
  for (const line of lines) {
    const open = (parts.length > 0) !== isOpen(line);
    parts.push(line);
    length += line.length + 1;
    if (open && length > LONGEST_RECORD) throw new Error("a quotation mark is never closed");
    if (open) continue;
    const whole = parts.join("\n");
    records.push(whole.endsWith("\r") ? whole.slice(0, -1) : whole);
    parts = [];
    length = 0;
  }
  if (isLast && parts.length) throw new Error("a quotation mark is never closed");
  return [records, parts.length ? `${parts.join("\n")}\n${tail ?? ""}` : (tail ?? "")];
}

export function cells(record, separator) {
  if (!record.includes('"')) return record.split(separator);
  const found = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < record.length; at += 1) {
    const letter = record[at];
    if (quoted && letter === '"' && record[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) {
      found.push(cell);
      cell = "";
    } else cell += letter;
  }
  return [...found, cell];
}

const BLANK = /^[\s,;|]*$/; // as Excel leaves lines below a table

// All records of a file, in batches: [line of the first one, records]. Lines without any value count, and are left out.
export async function* batches(file, isStale) {
  const reader = file.stream().pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
  let rest = "";
  let line = 1;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (isStale()) return;
      const [records, left] = cut(done ? rest : rest + value, done);
      if (left.length > LONGEST_RECORD) throw new Error(`one of its lines is longer than ${LONGEST_RECORD.toLocaleString("en")} characters`);
      rest = left;
      const numbered = [];
      for (const record of records) {
        if (!BLANK.test(record)) numbered.push([line, record]);
        line += record.includes("\n") ? record.split("\n").length : 1;
      }
      if (numbered.length) yield numbered;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// From the beginning of a file: separator, names of the columns, first rows.
export async function beginning(file) {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.slice(0, FIRST_BYTES).arrayBuffer(), {
    stream: file.size > FIRST_BYTES,
  });
  const [records] = cut(text, file.size <= FIRST_BYTES);
  const [header, ...rows] = records.filter((record) => record !== "");
  if (header === undefined) throw new Error(file.size > FIRST_BYTES ? `its first line is longer than ${FIRST_BYTES.toLocaleString("en")} bytes, or a quotation mark in it is never closed` : "it has no rows");
  const separator = [",", ";", "\t", "|"]
    .map((one) => [cells(header, one).length, one])
    .reduce((best, one) => (one[0] > best[0] ? one : best))[1];
  const names = cells(header, separator).map((name) => name.trim());
  if (names.length > MOST_COLUMNS) throw new Error(`it has ${names.length} columns, at most ${MOST_COLUMNS} are read`);
  const headless = names.every((name) => name !== "" && !Number.isNaN(number(name, separator)));
  return {
    separator,
    headless,
    names: headless ? names.map((_, place) => `column ${place + 1}`) : names,
    rows: (headless ? [header, ...rows] : rows).slice(0, SHOWN_ROWS),
  };
}

// Values --------------------------------------------------------------------------------------------------------------

const MISSING = new Set(["", "na", "n/a", "#n/a", "#na", "#n/a n/a", "null"]);

// Whether this text stands for a missing value.
export function isMissing(text) {
  return MISSING.has(text.toLowerCase());
}

// A number as written in files separated by commas, or with a decimal comma if the separator is another.
export function number(text, separator) {
  const plain = separator === "," ? text : text.replace(/^([+-]?\d*),(\d+)$/, "$1.$2");
  // No digit may be read in two ways: a long one that ends in a letter would be tried as often as it has digits, squared.
  return /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(plain) && Number.isFinite(Number(plain)) ? Number(plain) : NaN;
}

export function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function unreadable(error) {
  return `This file cannot be read as CSV: ${error.message}.`;
}
