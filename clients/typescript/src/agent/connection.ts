/** gRPC to the server that a link pins: one unary call, one stream in both directions. */

import { readFileSync } from "node:fs";
import { connect as connectTls } from "node:tls";

import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { type ChannelOptions, Client, type ClientDuplexStream, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { hex, sha256 } from "./bytes.js";
import { NotTrusted, Refused } from "./errors.js";
import {
  type AgentMessage,
  AgentMessageSchema,
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
  type OperatorMessage,
  OperatorMessageSchema,
} from "./federation_pb.js";
import { addressOf, isLoopback, type Link } from "./link.js";

const PINNED_NAME = "discreet.rpc"; // in every certificate that the service makes for itself
const PATH = "/discreet.v1.Federation";
const CODE_KEY = "discreet-code"; // trailing metadata: the stable name of a refusal
const CONNECT_MS = 10_000;

const OPTIONS: ChannelOptions = {
  "grpc.max_receive_message_length": 16 << 20,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 2_000,
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
};

/** Files (PEM): authorities to believe instead of the pin, and the agent's own certificate for mutual TLS. */
export interface Tls {
  readonly authorities?: string;
  readonly certificate?: string;
  readonly key?: string;
}

/** What may be over in a moment: the same again may succeed. */
export class Broken extends Error {}

const PASSING = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED, status.ABORTED, status.INTERNAL, status.UNKNOWN];

function failure(error: Pick<ServiceError, "code" | "details" | "metadata">): Error {
  const [code] = error.metadata.get(CODE_KEY);
  const refused = new Refused(status[error.code] ?? "UNKNOWN", String(code ?? ""), error.details);
  return PASSING.includes(error.code) ? new Broken(refused.message) : refused;
}

const writer =
  <T extends DescMessage>(schema: T) =>
  (message: MessageShape<T>): Buffer =>
    Buffer.from(toBinary(schema, message));

const reader =
  <T extends DescMessage>(schema: T) =>
  (data: Buffer): MessageShape<T> =>
    fromBinary(schema, data);

export class Connection {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  /** NotTrusted before a byte is sent when the pin does not fit; Broken when there is no server. */
  static async open(link: Link, tls: Tls): Promise<Connection> {
    const address = addressOf(link);
    const read = (path: string | undefined): Buffer | null => (path === undefined ? null : readFileSync(path));
    const own = read(tls.certificate);
    const ownKey = read(tls.key);
    if (!link.tls && tls.authorities === undefined) {
      if (!isLoopback(link.host)) throw new NotTrusted(`${link.host} is not a loopback address, and the token names no certificate`);
      return new Connection(new Client(address, credentials.createInsecure(), OPTIONS));
    }
    if (tls.authorities !== undefined || link.tls === "ca") {
      return new Connection(new Client(address, credentials.createSsl(read(tls.authorities), ownKey, own), OPTIONS));
    }
    const roots = await pinnedCertificate(link, own, ownKey);
    const options = { ...OPTIONS, "grpc.ssl_target_name_override": PINNED_NAME, "grpc.default_authority": PINNED_NAME };
    return new Connection(new Client(address, credentials.createSsl(roots, ownKey, own), options));
  }

  enroll(request: EnrollRequest, seconds: number): Promise<EnrollResponse> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        `${PATH}/Enroll`,
        writer(EnrollRequestSchema),
        reader(EnrollResponseSchema),
        request,
        new Metadata(),
        { deadline: Date.now() + 1000 * seconds },
        (error, response) => {
          if (error !== null) reject(failure(error));
          else if (response === undefined) reject(new Broken("no answer to the enrolment"));
          else resolve(response);
        },
      );
    });
  }

  participate(seconds?: number): Stream {
    const options = seconds === undefined ? {} : { deadline: Date.now() + 1000 * seconds };
    return new Stream(
      this.#client.makeBidiStreamRequest(
        `${PATH}/Participate`,
        writer(AgentMessageSchema),
        reader(OperatorMessageSchema),
        new Metadata(),
        options,
      ),
    );
  }

  close(): void {
    this.#client.close();
  }
}

/** One stream: messages are waited for one by one. */
export class Stream {
  readonly #call: ClientDuplexStream<AgentMessage, OperatorMessage>;
  readonly #arrived: OperatorMessage[] = [];
  #over: Error | "ended" | undefined;
  #wake: (() => void) | undefined;

  constructor(call: ClientDuplexStream<AgentMessage, OperatorMessage>) {
    this.#call = call;
    const end = (how: Error | "ended"): void => {
      this.#over ??= how;
      this.#wake?.();
    };
    call.on("data", (message: OperatorMessage) => {
      this.#arrived.push(message);
      this.#wake?.();
    });
    call.on("error", (error: ServiceError) => end(failure(error)));
    call.on("end", () => setImmediate(end, "ended")); // an error that ends the stream is told first
  }

  /** The next message, or undefined when the server hung up without an error. */
  async next(): Promise<OperatorMessage | undefined> {
    while (this.#arrived.length === 0 && this.#over === undefined) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = undefined;
    }
    const message = this.#arrived.shift();
    if (message === undefined && this.#over instanceof Error) throw this.#over;
    return message;
  }

  send(message: AgentMessage): void {
    if (this.#over === undefined) this.#call.write(message);
  }

  cancel(): void {
    this.#call.cancel();
  }
}

/** The server's certificate as the only one to believe, if it is the one that was pinned. */
function pinnedCertificate(link: Link, own: Buffer | null, ownKey: Buffer | null): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      host: link.host,
      port: link.port,
      servername: PINNED_NAME,
      ALPNProtocols: ["h2"],
      rejectUnauthorized: false, // compared with the pin below; the channel then verifies it
      timeout: CONNECT_MS,
      ...(own === null || ownKey === null ? {} : { cert: own, key: ownKey }),
    });
    socket.once("secureConnect", () => {
      const der = socket.getPeerCertificate().raw as Buffer | undefined;
      socket.destroy();
      if (der === undefined || hex(sha256(der)) !== link.tls) {
        reject(new NotTrusted(`the certificate of ${addressOf(link)} is not the one that the token pins`));
      } else {
        const lines = der.toString("base64").replace(/(.{64})/g, "$1\n");
        resolve(Buffer.from(`-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`));
      }
    });
    socket.once("timeout", () => socket.destroy(new Error("no answer")));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const plain = error.code?.startsWith("ERR_SSL") || error.code === "EPROTO";
      reject(plain ? new NotTrusted(`${addressOf(link)} does not speak TLS`) : new Broken(`${addressOf(link)} does not answer: ${error.message}`));
    });
  });
}
