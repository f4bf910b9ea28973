// The public part of a new dataset as fields, made from the schema of its kind and in step with its JSON. The JSON is
// what is sent: without this file it is written by hand. How a table is read is described with the table, in step 2.

import { asText, element, Fields, fromText } from "./fields.js";

const panel = document.getElementById("public-fields");
const raw = document.getElementById("public-json");
const area = document.getElementById("public");
const schema = JSON.parse(panel.dataset.schema);
const issues = JSON.parse(panel.dataset.issues);

function read() {
  try {
    const found = fromText(area.value);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

function draw() {
  const values = read();
  if (values === null) {
    panel.replaceChildren(element("p", { className: "error" }, "The JSON below is not an object: correct it there."));
    return false;
  }
  const fields = new Fields(schema.$defs ?? {}, { changed: () => (area.value = asText(values)) });
  panel.replaceChildren(fields.object(schema, values, "/public", { hidden: ["reader", "columns"], usual: panel.dataset.usual.split(" ") }));
  if (issues.length) fields.refuse(issues.splice(0));
  return true;
}

area.addEventListener("input", draw);
raw.open = !draw();
