/** The ledger inside the caller's own transaction: the same reads and swaps, on the caller's connection. */
import { bellsOf, ringsBell } from "../../core/doorbell.ts";
import { configError } from "../../core/errors.ts";
import type { Put, TransactionView } from "../../core/store.ts";
import { savepoint } from "../shared/savepoint.ts";
import type { ServerClock } from "../shared/server-clock.ts";
import type { Connection } from "./client/connection.ts";
import { isTransactionOpen } from "./client/pg.ts";
import { sqlState, storeError } from "./errors.ts";
import { look } from "./migrate.ts";
import type { Settings } from "./options.ts";
import { keyHex } from "./sql/key.ts";
import { isServed, nameTenant } from "./sql/schema.ts";
import { type Swaps, stampedTooEarly } from "./swaps.ts";
import { noTransaction } from "./tx.ts";
import type { Wakes } from "./wake.ts";

export interface ViewOptions {
  readonly tx: object;
  readonly connection: Connection;
  readonly swaps: Swaps;
  readonly clock: ServerClock;
  readonly settings: Settings;
  /** Connections that were looked at once: each is on one database for as long as it lives. */
  readonly checked: WeakMap<object, Promise<void>>;
  /** The ledger's id where the store is open already, null where it is not. */
  readonly ledgerId: () => Promise<string | null>;
  readonly open: () => Promise<string>;
  readonly check: () => void;
  readonly wakes: () => Wakes | null;
}

export function transactionView(options: ViewOptions): TransactionView {
  const { tx, connection, swaps, settings } = options;
  // Savepoints that are open here: they exist only inside a transaction, so that nothing has to be asked meanwhile.
  let savepoints = 0;
  const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      options.check();
      await ensureChecked(options);
      if (savepoints === 0) await requireOpenTransaction(options);
      // Named each time: a pooled connection outlives the transaction that it was named in.
      if (settings.rls) await connection.query(nameTenant(settings.tenant as string));
      return await work();
    } catch (error) {
      if (sqlState(error) === "25P01") throw noTransaction();
      throw storeError(error, { where: settings.name, schema: settings.schema });
    }
  };
  return {
    read: (keys) => guarded(() => swaps.read(connection, keys)),
    write: (puts) =>
      guarded(async () => {
        const results = puts.some(stampedTooEarly)
          ? await swaps.writeAllButEarly(connection, puts, true)
          : await swaps.write(connection, puts, true);
        const bells = puts.filter(({ record }, i) => results[i]?.ok && ringsBell(record));
        // Idle workers hear of it when the transaction commits; busy ones need no telling.
        const said = bells.length === 0 ? null : ring(options.wakes(), bells);
        if (said) await connection.query(said.text, said.values);
        return results;
      }),
    atomically: (work) =>
      guardedSavepoint(tx, connection, async () => {
        savepoints += 1;
        try {
          return await work();
        } finally {
          savepoints -= 1;
        }
      }),
  };
}

function ring(wakes: Wakes | null, puts: readonly Put[]) {
  return wakes?.waitedFor ? wakes.movedWithin(puts.flatMap(({ record }) => bellsOf(record).map(keyHex))) : null;
}

async function guardedSavepoint<T>(tx: object, connection: Connection, work: () => Promise<T>): Promise<T> {
  try {
    return await savepoint(tx, (sql) => connection.query(sql), work);
  } catch (error) {
    if (sqlState(error) === "25P01") throw noTransaction();
    throw error;
  }
}

/**
 * Without a transaction each write would be committed at once, and stay when the caller's own work is rolled back. A pg
 * client knows; for all others the server is asked, by a savepoint, which it refuses (25P01) outside of a transaction.
 */
async function requireOpenTransaction({ tx, connection }: ViewOptions): Promise<void> {
  const open = isTransactionOpen(tx);
  if (open === false) throw noTransaction();
  if (open === null) await guardedSavepoint(tx, connection, async () => {});
}

function ensureChecked(options: ViewOptions): Promise<void> {
  const { checked } = options;
  let check = checked.get(options.tx);
  if (check === undefined) {
    check = checkLedger(options);
    checked.set(options.tx, check);
    check.catch(() => checked.delete(options.tx));
  }
  return check;
}

/**
 * One question on the caller's own connection, which may be the only one its pool has: is this the ledger's database?
 * A transaction elsewhere could not commit together with the record.
 */
async function checkLedger({ connection, clock, settings, ledgerId, open }: ViewOptions): Promise<void> {
  const { schema, name } = settings;
  const { state, clock: seen } = await look(connection, schema);
  clock.observe(seen);
  const known = await ledgerId();
  if (state !== null && isServed(state, name) && (known === null || known === state.ledgerId)) return;
  if (known === null) await open();
  if (state === null && known === null) return;
  throw configError(
    `tx is a transaction on a database that does not hold the ledger ${name}: they could not commit together. Keep the ledger in the same database: postgresStore({ url }) with the URL of that database.`,
  );
}
