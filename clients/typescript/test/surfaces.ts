/**
 * Sends the files of a list to a running service (DISCREET_URL, DISCREET_KEY), and prints a line of JSON for each: what it
 * would be read as (`look`), what it was registered as (`add`, or by its draft, `register`), or what was refused.
 */

import { openAsBlob, readFileSync } from "node:fs";
import { ApiError, createDiscreet, type DatasetAbout, type DatasetBody } from "../src/index.js";

const { DISCREET_URL: baseUrl = "", DISCREET_KEY: key = "" } = process.env;
const discreet = createDiscreet({ baseUrl, key });
const [list = "", way = ""] = process.argv.slice(2);

for (const { path, kind, public: said } of JSON.parse(readFileSync(list, "utf8"))) {
  const file = new File([await openAsBlob(path)], "table.csv");
  const about = { kind, public: said };
  const dataset = { ...about, name: "table", cap: { epsilon: 4 } };
  try {
    if (way === "add") {
      tell(await discreet.datasets.add(file, dataset as DatasetAbout));
    } else {
      const look = await discreet.datasets.look(file, about);
      tell(way === "look" ? look : await discreet.register({ ...dataset, draft: look.id } as DatasetBody));
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell({ refused: error.message });
  }
}

function tell(found: object): void {
  console.log(JSON.stringify(found));
}
