/** Contents of datasets as files: a browser's File or Blob, a stream of Node or of the web. */

import type { DatasetBody } from "./kinds.js";
import type { components } from "./schema.js";

/** A stream is read whole before it is sent, since it may have to be sent again; for a large file on disk use `fs.openAsBlob`. */
export type FileContent = Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array | string>;

type WithoutContent<D> = D extends unknown ? Omit<D, "content"> : never;

/** The request to register a dataset, without the content, which is a file. */
export type DatasetAbout = WithoutContent<DatasetBody> & {
  /** Its ending (.csv, .parquet, .json) decides how the file is read; default the name of a File. */
  filename?: string;
};

/** What is known of a file that is looked at: its kind, and of the public part what is known until now, with `reader` and `columns`. */
export type LookAbout = Omit<components["schemas"]["ReadRequest"], "draft"> & {
  /** Its ending says how the file is read, unless `format` does; default the name of a File. */
  filename?: string;
};

/** The multipart form of a registration, a look or a correction. */
export async function formOf(content: FileContent, about: object, filename?: string): Promise<FormData> {
  const name = filename ?? (content as Partial<File>).name;
  if (!name) throw new TypeError("filename is needed: its ending says whether the content is CSV, Parquet or JSON");
  const form = new FormData();
  form.append("metadata", JSON.stringify(about));
  form.append("content", await blobOf(content), name);
  return form;
}

async function blobOf(content: FileContent): Promise<Blob> {
  if (content instanceof Blob) return content;
  if (content instanceof ReadableStream) return new Response(content).blob();
  const parts: BlobPart[] = [];
  for await (const part of content) parts.push(part as BlobPart);
  return new Blob(parts);
}
