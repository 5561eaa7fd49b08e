/** A sequence whose list changes, on every store that needs a server or a file of its own; the others are in src/runs. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { nevertwice, notSent, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase, freshPrefix, redisUrl } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { until } from "./support/gate.ts";
import { startS3 } from "./support/s3-server.ts";

/** Opens the same ledger once more, as another process would. */
type Connect = () => Store;

const STORES: Readonly<Record<string, () => Promise<Connect> | Connect>> = {
  file: () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return () => fileStore({ path });
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
    return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
  redis: () => {
    const prefix = freshPrefix().replace(/:$/, "");
    const client = new Redis(redisUrl());
    onTestFinished(() => void client.disconnect());
    return () => redisStore({ client, prefix });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    const schema = `t_${randomBytes(6).toString("hex")}`;
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    onTestFinished(() => pool.end());
    return () => postgresStore({ pool, schema, listen: false });
  },
};

describe.each(Object.keys(STORES))("a sequence on %s", (name) => {
  it("goes forward only when the list changes, tries a step as often as given, and stays stopped", async () => {
    const connect = await (STORES[name] as () => Promise<Connect>)();
    const calls: string[] = [];
    const release = (list: readonly string[]) => {
      const nt = nevertwice({ store: connect(), sweep: false, onWarning: () => {} });
      onTestFinished(() => nt.close());
      const sequence = nt.sequence<undefined, unknown>("drip", list, {
        after: 1,
        onFailed: "continue",
        retry: { attempts: 3, backoff: 1, max: 1 },
        run: ({ step }) => {
          calls.push(step);
          if (step === "fails") throw notSent(new Error("no connection"));
        },
      });
      const worker = nt.worker();
      const run = (step: string) =>
        until(async () => {
          await worker.tick();
          return calls.includes(step);
        }, `${step} is taken`);
      return { sequence, worker, run };
    };
    const first = release(["a", "fails", "b"]);
    await first.sequence.start("ann", undefined);
    await first.run("b");
    expect(calls).toEqual(["a", "fails", "fails", "fails", "b"]);
    await first.worker.stop();
    const second = release(["zero", "a", "fails", "between", "b", "c", "d"]);
    await second.sequence.start("ann", undefined);
    await second.run("c");
    await second.sequence.stop("ann", { by: "ada", reason: "asked to" });
    await second.sequence.start("ann", undefined);
    await until(async () => {
      await second.worker.tick();
      return (await second.sequence.status("ann")).steps.every(({ outcome }) => outcome.status !== "queued");
    }, "all steps are settled");
    // Stopped before "d", or just after it had begun.
    expect(calls.slice(5).join()).toMatch(/^c(,d)?$/);
  });
});
