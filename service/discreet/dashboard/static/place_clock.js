// Local times of a time zone, such as Europe/Berlin, and their offsets from UTC. Where clocks are put back and show an
// hour twice, the order of a meter's rows tells which it is, by the rule of the Python client (`meters.in_zone`).

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

// A formatter for the time zone; null if this browser does not know it.
function formatter(place) {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: place, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
    });
  } catch {
    return null;
  }
}

function written(offset) {
  const minutes = Math.abs(offset) / MINUTE;
  const two = (number) => String(number).padStart(2, "0");
  return `${offset < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

export class PlaceClock {
  constructor(place) {
    this.place = place;
    this.formatter = /^[A-Za-z_]+\/[A-Za-z_/+-]+$/.test(place) ? formatter(place) : null;
    this.days = new Map(); // by local day: the offsets a day before and two days after its beginning
    this.begin();
  }

  get isKnown() {
    return this.formatter !== null;
  }

  // Must be called before a file is read from its first row.
  begin() {
    this.runs = new Map(); // by owner: times of an hour that clocks show twice, in the order of rows
    this.wrong = { count: 0, line: 0, owner: "" };
  }

  // Milliseconds east of Greenwich at an instant.
  #offset(instant) {
    const part = Object.fromEntries(this.formatter.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) - Math.floor(instant / 1000) * 1000;
  }

  // The offsets that a local time may have, the earlier instant first; none if clocks skip it.
  #offsets(time) {
    const day = Math.floor(time / DAY);
    if (!this.days.has(day)) {
      const [before, after] = [this.#offset((day - 1) * DAY), this.#offset((day + 2) * DAY)];
      this.days.set(day, { before, after });
    }
    const { before, after } = this.days.get(day);
    if (before === after) return [before];
    return [...new Set([before, after])].filter((offset) => this.#offset(time - offset) === offset).sort((one, other) => other - one);
  }

  // {text} with its offset, or {says} what is wrong. `owner` is whose row it is, `line` its line in the file.
  moment(time, owner, line) {
    const offsets = this.#offsets(time);
    const local = new Date(time).toISOString().slice(0, 19);
    if (offsets.length === 0) return { says: `is a time that clocks in ${this.place} skip` };
    if (offsets.length === 1) {
      this.#close(owner);
      return { text: `${local}${written(offsets[0])}` };
    }
    const run = this.runs.get(owner) ?? { first: [], second: [], isWrong: false, line };
    this.runs.set(owner, run);
    const last = run.second.at(-1) ?? run.first.at(-1) ?? -Infinity;
    if (time <= last) {
      if (run.second.length) run.isWrong = true;
      run.begins ??= time < last;
      run.second.push(time);
    } else (run.second.length ? run.second : run.first).push(time);
    return { text: `${local}${written(offsets[run.second.length ? 1 : 0])}` };
  }

  #close(owner) {
    const run = this.runs.get(owner);
    if (!run) return;
    this.runs.delete(owner);
    const isWithin = (some, others) => some.every((time) => others.includes(time));
    const isSame = run.first.join() === run.second.join();
    const isTold = run.begins && (isWithin(run.first, run.second) || isWithin(run.second, run.first));
    if (!run.isWrong && (isSame || isTold)) return;
    if (this.wrong.count === 0) Object.assign(this.wrong, { line: run.line, owner });
    this.wrong.count += 1;
  }

  // After a file was read: a sentence on the hours whose order did not tell, in a list; empty if there are none.
  conclude() {
    for (const owner of [...this.runs.keys()]) this.#close(owner);
    const { count, line, owner } = this.wrong;
    if (count === 0) return [];
    const whose = owner === "" ? "" : ` of “${owner.slice(0, 40)}”`;
    const more = count === 1 ? "" : ` (and so for ${(count - 1).toLocaleString("en")} more)`;
    return [`Line ${line.toLocaleString("en")}: clocks in ${this.place} show this hour twice, and the order of the rows${whose} does not tell which of the two it is${more}. Write the offset from UTC after these times.`];
  }
}
