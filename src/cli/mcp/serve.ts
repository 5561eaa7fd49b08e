/** `nevertwice mcp serve`: the ledger for operators who work through a model. Each tool is one of the commands, with --json. */

import { type ServedTool, serveLine } from "../../agents/mcp/ledger-server.ts";
import { onLines } from "../../agents/mcp/lines.ts";
import { PACKAGE_VERSION } from "../../core/package-version.ts";
import type { Context, Io } from "../command.ts";
import { run } from "../run.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { refuseFlags } from "./proxy.ts";

type Args = Readonly<Record<string, unknown>>;

const KEY = { type: "string", description: "a record's key, or its first characters: nt1_…" };
const REASON = { type: "string", description: "why, for the record's history" };
const INSTRUCTIONS =
  "The ledger of side effects that happen once. Look with nevertwice_list and nevertwice_show. What is unknown may have happened: look at the provider before anybody settles it.";

export async function runServe(context: Context): Promise<number> {
  refuseFlags(context, PROXY_FLAGS, "belong to the proxy: mcp serve speaks on stdio alone, with the ledger as it is");
  const streams = context.io.takeOver?.();
  if (streams === undefined) throw new UsageError("mcp serve runs as a program of its own, not inside another.");
  const tools = toolsOf(context);
  const info = { name: "nevertwice", version: PACKAGE_VERSION, instructions: INSTRUCTIONS };
  const busy = new Set<Promise<void>>();
  await new Promise<void>((ended) => {
    streams.onSignal(() => ended());
    onLines(streams.input, {
      line(line) {
        const work = serveLine(line, tools, info)
          .then((answer) => void (answer !== null && streams.output.write(`${answer}\n`)))
          .finally(() => busy.delete(work));
        busy.add(work);
      },
      end: ended,
      error: () => ended(),
    });
  });
  await Promise.all(busy);
  return EXIT.ok;
}

const PROXY_FLAGS =
  "url listen header principal identity-env allow-host allow-origin max-body max-held body-timeout secret-env encrypt-env config".split(
    " ",
  );

function toolsOf(context: Context): ServedTool[] {
  const { args } = context;
  const mine = (words: readonly string[]) => command(context, words);
  const tools: ServedTool[] = [
    {
      name: "nevertwice_list",
      description: "Lists records, the newest first. doubt: only those that may or may not have happened.",
      readOnly: true,
      inputSchema: schema({
        doubt: { type: "boolean" },
        state: { type: "string", description: "pending, claimed, sent, confirmed, failed, unknown; with commas" },
        action: { type: "string" },
        limit: { type: "integer", minimum: 1, maximum: 1000 },
      }),
      run: (given) =>
        mine(["ls", ...flags(given, ["state", "action", "limit"]), ...(given.doubt === true ? ["--doubt"] : [])]),
    },
    {
      name: "nevertwice_show",
      description: "Shows one record: state, attempts, times, why it is in doubt, its history.",
      readOnly: true,
      inputSchema: schema({ key: KEY }, ["key"]),
      run: (given) => mine(["show", word(given, "key")]),
    },
    {
      name: "nevertwice_stats",
      description: "Counts records by state and action, and says how old the oldest doubt is.",
      readOnly: true,
      inputSchema: schema({}),
      run: () => mine(["stats"]),
    },
  ];
  if (args.on("allow-resolve")) tools.push(...settling(context));
  if (args.on("allow-resend")) tools.push(resending(context));
  return tools;
}

/** Who signs is said by whoever started the server, never by the model. */
function signer({ args, io }: Context): string {
  return args.text("by") ?? `${io.user() ?? "somebody"}, through mcp serve`;
}

function settling(context: Context): ServedTool[] {
  const by = signer(context);
  return [
    {
      name: "nevertwice_resolve",
      description:
        "Settles a doubt after somebody has looked at the provider. done: it happened; give the result that a repeat gets, or it is not kept. not-done: it did not, and may run again; if it did happen after all, it then happens twice. failed: it did not, and is left.",
      readOnly: false,
      inputSchema: schema({ key: KEY, as: { enum: ["done", "not-done", "failed"] }, result: {}, reason: REASON }, [
        "key",
        "as",
        "reason",
      ]),
      run: async (given) => {
        const as = word(given, "as");
        if (!["done", "not-done", "failed"].includes(as)) throw new Error('as takes "done", "not-done" or "failed".');
        const result = given.result === undefined ? [] : [`--result=${JSON.stringify(given.result)}`];
        return command(context, [
          "resolve",
          word(given, "key"),
          `--${as}`,
          ...result,
          `--reason=${word(given, "reason")}`,
          `--by=${by}`,
        ]);
      },
    },
    {
      name: "nevertwice_retry",
      description: "Brings a failed record back: the next call of its action runs it.",
      readOnly: false,
      inputSchema: schema({ key: KEY, reason: REASON }, ["key", "reason"]),
      run: async (given) =>
        command(context, ["retry", word(given, "key"), `--reason=${word(given, "reason")}`, `--by=${by}`]),
    },
  ];
}

function resending(context: Context): ServedTool {
  const actions = context.args.text("actions");
  if (actions === undefined) {
    throw new UsageError("mcp serve --allow-resend needs the module that defines the actions: --actions ./actions.js");
  }
  return {
    name: "nevertwice_resend",
    description: "Has the effect once more on purpose, as a new version. Only when a person asked for exactly that.",
    readOnly: false,
    inputSchema: schema({ key: KEY, reason: REASON }, ["key", "reason"]),
    run: async (given) =>
      command(context, [
        "resend",
        word(given, "key"),
        `--actions=${actions}`,
        `--reason=${word(given, "reason")}`,
        `--by=${signer(context)}`,
        // A model may repeat itself: what it asks for of one record is sent once.
        "--once",
      ]),
  };
}

/** A command of this very program, its JSON as the answer. */
async function command({ args, io }: Context, words: readonly string[]): Promise<string> {
  let [out, err] = ["", ""];
  const sink = (write: (text: string) => void) => ({ write, isTTY: false, columns: undefined });
  const { takeOver: _, ...around } = io;
  const inside: Io = {
    ...around,
    stdout: sink((text) => {
      out += text;
    }),
    stderr: sink((text) => {
      err += text;
    }),
  };
  const [store, tenant] = [args.text("store"), args.text("tenant")];
  const common = [
    ...(store === undefined ? [] : [`--store=${store}`]),
    ...(tenant === undefined ? [] : [`--tenant=${tenant}`]),
  ];
  const code = await run([...words, ...common, "--json"], inside);
  if (code !== EXIT.ok) throw new ProblemError(err.trim() || out);
  return out.trim();
}

function schema(properties: object, required: readonly string[] = []) {
  return { type: "object", properties, required, additionalProperties: false };
}

function flags(given: Args, names: readonly string[]): string[] {
  return names.filter((name) => given[name] !== undefined).map((name) => `--${name}=${String(given[name])}`);
}

/** A word for the command line; one that looks like a flag is none. */
function word(given: Args, name: string): string {
  const value = given[name];
  if (typeof value === "string" && value.trim() !== "" && !value.startsWith("-")) return value;
  throw new Error(`${name} is missing: give a text that is not blank and does not begin with "-".`);
}
