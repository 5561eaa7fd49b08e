import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { messageOf } from "../../core/errors.ts";
import { nevertwice, servicesOf } from "../../nevertwice.ts";
import { LOOPBACK } from "../../serve/door.ts";
import type { Listen } from "../../serve/http-service.ts";
import type { Command, Context } from "../command.ts";
import { openLedger } from "../ledger/open.ts";
import { checkLedger } from "../ledger/secret-check.ts";
import { ledgerOptions } from "../ledger/secret-flags.ts";
import { ACTING_FLAGS, reportDuplicates } from "../outside.ts";
import { asUsage, EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { tokenIn } from "../token-file.ts";

const DEFAULT_PORT = 7433;
const TOKEN_VARIABLE = "NEVERTWICE_SERVE_TOKEN";
const LEAST_TOKEN = 16;

export const serve: Command = {
  name: "serve",
  summary: "a local HTTP service for programs in other languages: claim, settle, enqueue, take",
  usage: ["[--port <port>] [--token-file <file>] [flags]", "--socket <path> [--token-file <file>] [flags]"],
  about: `Listens on 127.0.0.1 or on a Unix socket, and prints one line with its URL. Clients send the token of $${TOKEN_VARIABLE}, --token-file or --token; without one, a token is made for this run and shown on stderr. The service holds no attempts: it may be restarted at any time, and clients settle afterwards. SIGTERM or Ctrl-C: no new requests, those under way end, leases stay.`,
  flags: {
    port: {
      value: "port",
      about: `the port on loopback, default: ${DEFAULT_PORT}, 0 for any free one`,
    },
    socket: { value: "path", about: "a Unix socket (mode 0600) instead of a port" },
    host: { value: "address", about: "default: 127.0.0.1; another than loopback needs --expose" },
    expose: { about: "with --host: other hosts may connect. There is no TLS: put a proxy in front" },
    "allow-host": { value: "name", about: "a further host name by which clients may call it" },
    token: {
      value: "token",
      about: `the token; better in $${TOKEN_VARIABLE}: flags show in lists of processes`,
    },
    "token-file": {
      value: "file",
      about: "a file with the token; made with mode 0600 where there is none",
    },
    sweep: { value: "duration", about: "how often silent holders are looked for, default: 30s" },
    ...ACTING_FLAGS,
  },
  operands: 0,
  examples: [
    ["serve", "on 127.0.0.1:7433, for the embedded ledger"],
    ["serve --store postgres://db/app --token-file ./serve.token", "with a token that stays the same"],
    ["serve --socket /run/agents/nevertwice.sock", "on a Unix socket"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const listen = listenOf(context);
  const { token, made } = tokenOf(context);
  const sweep = args.text("sweep");
  const options = ledgerOptions(context);
  const store = openLedger(args.text("store"), io);
  const note = (text: string) => context.note(oneLine(text));
  const nt = asUsage(() =>
    nevertwice({
      store,
      ...options,
      ...(sweep !== undefined && { sweep }),
      onWarning: ({ code, message }) => note(`${code}: ${message}`),
      logger: { debug: () => {}, info: () => {}, warn: note, error: note },
    }),
  );
  try {
    const asked = new Promise<void>((end) => {
      io.onInterrupt?.(end);
    });
    reportDuplicates(servicesOf(nt), note);
    // A ledger that cannot be used is said now, and not by every answer.
    await checkLedger(servicesOf(nt), { noSecret: args.on("no-secret") });
    const allowHosts = args.all("allow-host");
    // Loaded on demand: Node's HTTP server with it.
    const { serveHttp } = await import("../../serve/http-service.ts");
    const service = await serveHttp({ services: servicesOf(nt), token, listen, allowHosts, note }).catch(notListening);
    // Written as it is: a note would have its secrets taken out.
    if (made) io.stderr.write(`nevertwice: the token for this run: ${token}\n`);
    if (args.on("json")) context.json({ url: service.url, store: store.name });
    else context.line(`nevertwice serve on ${service.url}`);
    await asked;
    await service.close();
    return EXIT.ok;
  } finally {
    await nt.close();
  }
}

function notListening(error: NodeJS.ErrnoException): never {
  const taken = error.code === "EADDRINUSE";
  if (!taken && error.code !== "EADDRNOTAVAIL" && error.code !== "EACCES") throw error;
  const advice = taken ? "Another program listens there, perhaps this service already." : "";
  throw new ProblemError(`it cannot listen: ${oneLine(messageOf(error))}. ${advice} Give another --port or --host.`);
}

function listenOf({ args, io }: Context): Listen {
  const [socket, port, host] = [args.text("socket"), args.text("port"), args.text("host")];
  if (socket !== undefined) {
    if (port !== undefined || host !== undefined || args.on("expose"))
      throw new UsageError("--socket goes without --port, --host and --expose: it is one or the other.");
    return { socket: resolve(io.cwd, socket) };
  }
  const number = port === undefined ? DEFAULT_PORT : Number(port);
  if (!/^\d*$/.test(port ?? "") || number > 65_535)
    throw new UsageError(`--port ${oneLine(port ?? "")}: it takes a number from 0 to 65535.`);
  return { host: hostOf(host ?? "127.0.0.1", args.on("expose")), port: number };
}

function hostOf(host: string, exposed: boolean): string {
  if (LOOPBACK.has(host)) return host;
  if (isIP(host) === 0)
    throw new UsageError(`--host ${oneLine(host)}: it takes an IP address of this host, such as 127.0.0.1.`);
  if (exposed) return host;
  throw new UsageError(
    `--host ${oneLine(host)} lets other hosts connect, and the token then crosses the network in clear text. If that is meant, add --expose (and a proxy with TLS in front); otherwise leave --host out.`,
  );
}

function tokenOf({ args, io }: Context): { readonly token: string; readonly made: boolean } {
  const file = args.text("token-file");
  const given = args.text("token") ?? (file === undefined ? io.env[TOKEN_VARIABLE] : undefined);
  if (args.on("token") && file !== undefined)
    throw new UsageError("two tokens are given: leave out --token-file or --token.");
  if (file !== undefined)
    return { token: checked(tokenIn(resolve(io.cwd, file), newToken), "--token-file"), made: false };
  if (given !== undefined)
    return { token: checked(given, args.on("token") ? "--token" : `$${TOKEN_VARIABLE}`), made: false };
  return { token: newToken(), made: true };
}

function newToken(): string {
  return randomBytes(32).toString("base64url");
}

function checked(token: string, from: string): string {
  if (token.length >= LEAST_TOKEN && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError(
    `${from}: a token has at least ${LEAST_TOKEN} characters (letters, digits and signs, no blanks). Make one with: openssl rand -hex 32`,
  );
}
