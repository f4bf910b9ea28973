/** Clock times of the steps of a demand-response result: of a day, or of a week. */

/** What the field `states` of such a result says of its steps. */
export interface States {
  day_begins?: string;
  day_begins_on?: string;
  day_steps?: number;
  step_seconds?: number;
  first_step?: number;
  blocks?: number[];
}

const DAY_SECONDS = 86_400;
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** What a clock shows at a step of the day: `06:00`, of a week `Mon 06:00`, of several `week 2, Mon 06:00`, of several days `day 3, 06:00`, with seconds where steps are no whole minutes; undefined where none is known. */
function clock(states: States, step: number): string | undefined {
  const { day_begins: begins, day_begins_on: weekday, day_steps: cycle, step_seconds: length } = states;
  if (begins === undefined || cycle === undefined || length === undefined) return undefined;
  if ((cycle * length) % DAY_SECONDS) return undefined;
  const days = (cycle * length) / DAY_SECONDS;
  const [hours = 0, minutes = 0, seconds = 0] = begins.split(":").map(Number);
  const second = 3600 * hours + 60 * minutes + seconds + (step % cycle) * length;
  const minute = Math.floor(second / 60);
  const two = (value: number) => String(value).padStart(2, "0");
  const shown = `${two(Math.floor(minute / 60) % 24)}:${two(minute % 60)}${length % 60 ? `:${two(second % 60)}` : ""}`;
  if (days === 1) return shown;
  const day = Math.floor(minute / 1440);
  if (weekday === undefined) return `day ${(day % days) + 1}, ${shown}`;
  const week = days > 7 ? `week ${Math.floor((day % days) / 7) + 1}, ` : "";
  return `${week}${WEEKDAYS[(WEEKDAYS.indexOf(weekday.slice(0, 3)) + day) % 7]} ${shown}`;
}

/** The hours of each block of a day, or its steps. */
export function blockNames(states: States): string[] {
  const { blocks = [], day_steps: cycle = 0 } = states;
  return blocks.map((first, place) => {
    const end = blocks[place + 1] ?? cycle;
    const begins = clock(states, first);
    return begins === undefined ? `steps ${first} to ${end - 1}` : `${begins} to ${clock(states, end)}`;
  });
}

/** What a clock shows at each of so many steps of the horizon, all different: on the second day `06:00 (2)`. Undefined where none is known. */
export function stepNames(states: States, count: number): string[] | undefined {
  const { first_step: first, day_steps: cycle = 0 } = states;
  if (first === undefined || clock(states, 0) === undefined) return undefined;
  return Array.from({ length: count }, (_, step) => {
    const again = step >= cycle ? ` (${Math.floor(step / cycle) + 1})` : "";
    return `${clock(states, first + step)}${again}`;
  });
}
