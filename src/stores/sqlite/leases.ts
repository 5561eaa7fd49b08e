/** Handing queued work out, on the loop's own connection: apart from stores/sqlite/ledger.ts, which the thread has a copy of and which needs none of this. */
import { type DamagedRecord, decodeIntact } from "../../core/damaged-record.ts";
import type { Instant } from "../../core/record.ts";
import type { LeaseQuery, Stored } from "../../core/store.ts";
import { LapsedLooks } from "../shared/lapsed-looks.ts";
import { checkLimit, claimed } from "../shared/scan.ts";
import { encodePut, type SqliteLedger } from "./ledger.ts";
import { LAPSED } from "./list.ts";
import { decodeRow, type Row } from "./row.ts";

// A document that is no JSON any more would make json_extract() fail, and with it the whole statement. Such a row is
// selected, so that its decoding finds the damage and reports it.
const QUEUED =
  "CASE WHEN NOT json_valid(doc) THEN 1 WHEN json_type(doc) <> 'object' THEN 1 ELSE json_extract(doc, '$.queued') = 1 END";

export class SqliteLeases {
  readonly #ledger: SqliteLedger;
  readonly #where: string;
  readonly #lapsedLooks = new LapsedLooks();

  constructor(ledger: SqliteLedger, where: string) {
    this.#ledger = ledger;
    this.#where = where;
  }

  lease(query: LeaseQuery, at: Instant): Stored[] {
    checkLimit(query.limit, "lease");
    // A look takes no lock: idle workers that poll must not stand in the writers' way.
    if (
      this.#leasable({ ...query, limit: 1 }, at, false, query.damaged)
        [Symbol.iterator]()
        .next().done
    )
      return [];
    // Abandoned work first, now and then: behind the due work of a queue that is never empty, nobody would get to it.
    const lapsedFirst = this.#lapsedLooks.due(query, at.steady);
    const damaged: DamagedRecord[] = [];
    const leased = this.#ledger.transaction(() => {
      damaged.length = 0;
      const leased: Stored[] = [];
      const found = (one: DamagedRecord) => damaged.push(one);
      for (const { record, version } of this.#leasable(query, at, lapsedFirst, found)) {
        const claim = claimed(record, query, at);
        if (claim === null) continue;
        const [result] = this.#ledger.writeWithin([encodePut({ record: claim, expected: version })]);
        if (result?.ok) leased.push({ record: claim, version: result.version });
        if (leased.length === query.limit) break;
      }
      return leased;
    });
    for (const one of damaged) query.damaged?.(one);
    return leased;
  }

  /** Due work by its index, oldest first; and claims whose holder fell silent before sending. */
  *#leasable(
    query: LeaseQuery,
    at: Instant,
    lapsedFirst = false,
    damaged: (found: DamagedRecord) => void = () => {},
  ): Iterable<Stored> {
    // What the index knows comes first: rows of others are passed over without being read.
    const where: string[] = [];
    const values: unknown[] = [];
    if (query.tenant !== undefined) {
      where.push("tenant = ?");
      values.push(query.tenant);
    }
    if (query.actions !== undefined) {
      where.push("action IN (SELECT value FROM json_each(?))");
      values.push(JSON.stringify(query.actions));
    }
    where.push(QUEUED);
    const filter = where.join(" AND ");
    const due = () => {
      const sql = `state = 'pending' AND attention_at <= ? AND ${filter} ORDER BY attention_at, id LIMIT ?`;
      return this.#enough(query.limit, damaged, (rows) => this.#ledger.select(sql, [at.now, ...values, rows]));
    };
    const lapsed = () => {
      const sql = `${LAPSED} AND state = 'claimed' AND ${filter} ORDER BY id LIMIT ?`;
      const select = (rows: number) => this.#ledger.select(sql, [at.steady, at.epoch, ...values, rows]);
      const intact = this.#enough(query.limit, damaged, select);
      if (intact.length < query.limit) this.#lapsedLooks.foundAll(query, at.steady);
      return intact;
    };
    for (const records of lapsedFirst ? [lapsed, due] : [due, lapsed]) yield* records();
  }

  /** As many as asked for, although rows that cannot be read stand before them: those are asked for on top. */
  #enough(limit: number, damaged: (found: DamagedRecord) => void, select: (rows: number) => Row[]): Stored[] {
    for (let rows = limit; ; ) {
      const found = select(rows);
      const bad: DamagedRecord[] = [];
      const intact = decodeIntact(
        found,
        (row) => decodeRow(row, this.#where),
        (damage) => bad.push(damage),
      );
      if (intact.length >= limit || found.length < rows || rows >= limit + bad.length) {
        for (const one of bad) damaged(one);
        return intact;
      }
      rows = limit + bad.length;
    }
  }
}
