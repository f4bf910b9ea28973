/** Files as contents, without a service: what is sent, from each form that a file may have. */

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { createDiscreet, type Discreet } from "../src/index.js";

const text = "period,origin,destination,count\n0,1,2,940\n1,1,2,1011\n";
const filename = "trips.csv";
const about = {
  kind: "routing" as const,
  name: "from a file",
  public: { unit: "request" as const, zones: 2, periods: 2, period_minutes: 60 },
  cap: { epsilon: 1, delta: 0 },
};

/** A client whose server answers in pages of one dataset, and is busy at first; `sent` is what arrived each time. */
function recorded(): { discreet: Discreet; sent: { metadata: unknown; name: string; content: string }[] } {
  const sent: { metadata: unknown; name: string; content: string }[] = [];
  const discreet = createDiscreet({
    baseUrl: "http://service",
    key: "dsc_key",
    async fetch(request) {
      if (request.method === "GET") {
        const next = new URL(request.url).searchParams.get("page_token") === null ? "second" : null;
        return Response.json({ datasets: [{ id: next ? "dst_2" : "dst_1" }], next_page_token: next });
      }
      const form = await request.formData();
      const file = form.get("content") as File;
      sent.push({ metadata: JSON.parse(form.get("metadata") as string), name: file.name, content: await file.text() });
      return sent.length === 1 ? Response.json({}, { status: 503 }) : Response.json({ id: "dst_1" }, { status: 201 });
    },
  });
  return { discreet, sent };
}

for (const [form, content, named] of [
  ["a blob", new Blob([text]), { filename }],
  ["a file", new File([text], filename), {}],
  ["a stream of the web", new Blob([text]).stream(), { filename }],
  ["a stream of Node", Readable.from([text.slice(0, 40), text.slice(40)]), { filename }],
] as const) {
  test(`a dataset is added from ${form}, again where the server was busy`, async () => {
    const { discreet, sent } = recorded();
    assert.equal((await discreet.datasets.add(content, { ...about, ...named })).id, "dst_1");
    assert.deepEqual(sent, Array(2).fill({ metadata: about, name: filename, content: text }));
  });
}

test("a content without a name is not sent", async () => {
  const { discreet, sent } = recorded();
  await assert.rejects(discreet.datasets.add(new Blob([text]), about), /filename is needed/);
  assert.deepEqual(sent, []);
});

test("a file is looked at, and again where it is already", async () => {
  const asked: [string, string][] = [];
  const discreet = createDiscreet({
    baseUrl: "http://service",
    key: "dsc_key",
    async fetch(request) {
      const metadata = request.headers.get("content-type")?.startsWith("multipart/")
        ? ((await request.formData()).get("metadata") as string)
        : await request.text();
      asked.push([`${request.method} ${new URL(request.url).pathname}`, metadata]);
      return Response.json({ id: "read_1", issues: [] });
    },
  });
  const kind = { kind: "routing" };
  const look = await discreet.datasets.look(new File([text], filename), { ...kind, public: { reader: { decimal: "," } } });
  await discreet.datasets.look(look.id, kind);
  assert.deepEqual(asked, [
    ["POST /v1/reads", JSON.stringify({ ...kind, public: { reader: { decimal: "," } } })],
    ["POST /v1/reads", JSON.stringify({ ...kind, draft: "read_1" })],
  ]);
});

test("datasets are listed over all pages", async () => {
  const found: string[] = [];
  for await (const { id } of recorded().discreet.datasets.list()) found.push(id);
  assert.deepEqual(found, ["dst_2", "dst_1"]);
});
