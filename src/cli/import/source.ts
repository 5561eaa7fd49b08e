/** Where the rows are: a file, a table of a database, or keys of Redis. */
import { resolve } from "node:path";
import { redact } from "../../core/redact.ts";
import { wallNow } from "../../engine/real-timers.ts";
import type { Context } from "../command.ts";
import { UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { openSource, type SourceFile } from "./file.ts";
import { KEY_COLUMNS, type Preset, renamed } from "./presets.ts";
import { matchOf, redisSource } from "./redis.ts";
import { spooled } from "./spool.ts";
import { postgresRows, sqliteRows, type TableQuery } from "./table.ts";

export interface OpenedSource {
  readonly source: SourceFile;
  /** What the report has to say about it. */
  readonly notes: readonly string[];
}

export async function openRows(context: Context, preset: Preset | null): Promise<OpenedSource> {
  const { args, io } = context;
  const [file] = args.operands;
  const from = addressOf(context);
  if ((file === undefined) === (from === undefined))
    throw new UsageError(
      file === undefined
        ? "import needs a file, or --from a database: nevertwice import ledger.jsonl --action publish, or nevertwice import --as s0-dedupe --from postgres://…"
        : "import reads a file or --from a database, one of the two.",
    );
  if (file !== undefined) {
    if (args.on("table")) throw new UsageError("--table is for --from. Leave it out.");
    if (preset?.name === "redis-set-nx")
      throw new UsageError("--as redis-set-nx reads the keys themselves: --from redis://host:6379 --match 'email:*'.");
    return { source: openSource(resolve(io.cwd, file), file, args.text("delimiter")), notes: [] };
  }
  if (args.on("delimiter")) throw new UsageError("--delimiter is for a CSV file. Leave it out.");
  return fromDatabase(context, preset, from as string);
}

/** A password on a command line is seen by everybody on the machine: a variable may hold the address. */
function addressOf({ args, io }: Context): string | undefined {
  const variable = args.text("from-env");
  if (variable === undefined) return args.text("from");
  if (args.on("from")) throw new UsageError("--from and --from-env are two ways to say the same. Give one of them.");
  const value = io.env[variable];
  if (value !== undefined && value.trim() !== "") return value;
  throw new UsageError(`--from-env ${oneLine(variable)}: that variable is not set.`);
}

async function fromDatabase(context: Context, preset: Preset | null, from: string): Promise<OpenedSource> {
  const { args, io } = context;
  const scheme = /^([a-z0-9+]+):/i.exec(from)?.[1]?.toLowerCase();
  switch (scheme) {
    case "postgres":
    case "postgresql":
      return {
        source: await spooled(tableName(args.text("table"), preset), postgresRows(from, query(context, preset))),
        notes: [],
      };
    case "sqlite": {
      const path = resolve(io.cwd, from.slice("sqlite:".length).replace(/^\/\/(?=\/)/, ""));
      return {
        source: await spooled(tableName(args.text("table"), preset), sqliteRows(path, query(context, preset))),
        notes: [],
      };
    }
    case "redis":
    case "rediss": {
      if (preset?.name !== "redis-set-nx")
        throw new UsageError("--from redis:// needs --as redis-set-nx: keys of Redis have no columns.");
      if (args.on("table"))
        throw new UsageError("--table is for a database with tables. For Redis: --match 'email:*'.");
      const match = matchOf(args.text("match"));
      const keys = redisSource(from, match, wallNow);
      const source = await spooled(match.pattern, keys.lines());
      const part =
        "This server is one of a Redis Cluster: only its own keys were read. Import from each primary in turn; none weakens what another has told.";
      return { source, notes: keys.isPartOfCluster ? [part] : [] };
    }
    default:
      throw new UsageError(
        `--from ${oneLine(redact(from))}: it takes postgres://user:password@host/database, sqlite:path/to/app.db or redis://host:6379. A file is named without --from.`,
      );
  }
}

function query(context: Context, preset: Preset | null): TableQuery {
  const { args } = context;
  const named = ["key", "action-column", "status-column", "time-column"].flatMap((flag) => args.text(flag) ?? []);
  const ofPattern = preset?.needs.map((column) => renamed(column, args.text("key"), args.text("status-column"))) ?? [];
  const own = args.text("key");
  return {
    table: tableName(args.text("table"), preset),
    order: preset?.order ?? [],
    needs: [...ofPattern, ...named, ...args.list("fields")],
    keys: [...(own === undefined ? KEY_COLUMNS : [own]), ...args.list("fields")],
  };
}

function tableName(given: string | undefined, preset: Preset | null): string {
  if (preset?.name === "redis-set-nx")
    throw new UsageError("--as redis-set-nx reads keys of Redis: --from redis://host:6379 --match 'email:*'.");
  const table = given ?? preset?.table ?? undefined;
  if (table !== undefined && table.trim() !== "") return table;
  throw new UsageError("--from needs --table <name>: the table that has the rows.");
}
