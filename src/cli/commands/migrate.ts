import type { MigrationReport } from "../../stores/postgres/migrator.ts";
import type { Command, Context } from "../command.ts";
import { secretOf } from "../ledger/secret-flags.ts";
import { EXIT, UsageError } from "../term/exit.ts";

export const migrate: Command = {
  name: "migrate",
  summary: "make the ledger's tables in PostgreSQL, or bring them up to date",
  usage: [
    "--store <url> [--grant <role>] [--rls] [--supabase]",
    "--store <url> [--grant <role>] --dry-run",
    "--store <url> --functions [--secret-env <variable>] [--grant-enqueue <role>] [--supabase]",
    "--store <url> --drop-functions",
    "--dump-sql [--grant <role>] [--schema <name>] [--rls] [--supabase] [--functions]",
  ],
  about:
    'A program does this by itself at its first call, unless its store says migrate: "manual": then a role that may create tables does it here, and the program\'s own role needs no more than to read and write. Ten of these at once migrate once; each migration happens whole or not at all. The other stores need no migration.',
  flags: {
    schema: { value: "name", about: 'where the tables are, default: "nevertwice"' },
    rls: {
      about: "row-level security too: a role sees the rows of the tenant its transaction names",
    },
    supabase: {
      about: "also what supabase-js needs to use the ledger with the service_role key, and nobody with another",
    },
    functions: {
      about:
        "also functions in SQL (enqueue, claim, take, settle …) and the view intents, for triggers, RPC and pg_cron",
    },
    "drop-functions": {
      about: "remove these functions, the view and the stored secret; the records stay",
    },
    "secret-env": {
      value: "variable",
      about:
        "with --functions: the environment variable with nevertwice({ secret }), so that keys made in SQL are the programs' keys. It is stored in a table that only the owner can read",
    },
    "no-secret": {
      about: "with --functions: the programs use no secret, where the records look as if they did",
    },
    "grant-enqueue": {
      value: "role",
      about: "with --functions: let this role enqueue by SQL, and do nothing else",
    },
    grant: { value: "role", about: "let this role use the ledger" },
    "dry-run": { about: "show what would be run on this ledger, and run nothing" },
    "dump-sql": {
      about:
        "print the SQL that makes a ledger or updates an older one, without a connection; it may be applied more than once",
    },
  },
  operands: 0,
  examples: [
    ["migrate --store postgres://owner@db/app", "as the tables' owner"],
    ["migrate --store postgres://owner@db/app --grant app", "and let the program's role use them"],
    ["migrate --store postgres://owner@db/app --functions", "with the functions for SQL"],
    ["migrate --dump-sql > ledger.sql", "for a migration tool of your own"],
    ["migrate --dump-sql --grant app > ledger.sql", "the same, with the grants of the program's role"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const url = args.text("store") ?? io.env.NEVERTWICE_STORE;
  const dump = args.on("dump-sql");
  if (dump && args.on("dry-run"))
    throw new UsageError("--dump-sql and --dry-run are two things: the SQL for any ledger, or what this one lacks.");
  if (!dump && !/^postgres(ql)?:/.test(url ?? "")) {
    throw new UsageError(
      "migrate is for ledgers in PostgreSQL: --store postgres://user:password@host/database, or NEVERTWICE_STORE. The other stores need no migration.",
    );
  }
  checkFunctionFlags(context);
  const functions = args.on("drop-functions") ? "drop" : args.on("functions") ? "make" : undefined;
  // Loaded on demand, as the SQL of the functions is long.
  const { performMigration } = await import("../../stores/postgres/migrator.ts");
  const report = await performMigration({
    url: dump ? undefined : url,
    schema: args.text("schema"),
    rls: args.on("rls"),
    supabase: args.on("supabase"),
    grant: args.text("grant"),
    functions,
    secret: secretOf(context),
    noSecret: args.on("no-secret"),
    grantEnqueue: args.text("grant-enqueue"),
    dryRun: args.on("dry-run"),
  });
  if (args.on("json")) context.json(report);
  else tell(context, report, dump);
  return EXIT.ok;
}

function checkFunctionFlags({ args }: Context): void {
  if (args.on("functions") && args.on("drop-functions"))
    throw new UsageError("--functions and --drop-functions contradict each other. Give one of them.");
  const lone = ["secret-env", "no-secret", "grant-enqueue"].find((flag) => args.on(flag) && !args.on("functions"));
  if (args.on("secret-env") && args.on("no-secret"))
    throw new UsageError("give one of these, since they contradict each other: --secret-env, --no-secret");
  if (lone !== undefined) throw new UsageError(`only with --functions: --${lone}`);
}

function tell(context: Context, { store, statements, ran, version }: MigrationReport, dump: boolean): void {
  if (dump || (!ran && statements.length > 0)) {
    if (!dump) context.note(`this would be run on ${store}:`);
    for (const sql of statements) context.line(`${sql};`);
    return;
  }
  context.line(
    statements.length === 0 ? `${store} is up to date (schema ${version}).` : `${store} is now at schema ${version}.`,
  );
}
