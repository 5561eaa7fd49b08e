/** Runs on the stores that each-store.ts does not open: the list of their steps, and how long it is kept. */
import { join } from "node:path";
import { nevertwice, notSent, type Run, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  file: async () => fileStore({ path: join(temporaryFolder(), "ledger.jsonl") }),
  postgres: async () => postgresStore({ url: (await freshDatabase()).url }),
  redis: async () => redisStore({ url: await flushableRedisDb(), prefix: freshPrefix().slice(0, -1) }),
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    return s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
};

const YEAR_MS = 365 * 86_400_000;

it.each(Object.entries(STORES))(
  "%s: a renamed branch runs nothing, and the records expire from the run's end on",
  async (_, open) => {
    const store = await open();
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const calls: string[] = [];
    let fails = true;
    const go = (branch: string) =>
      nt.run(
        "onboard",
        1,
        async (run: Run) => {
          await run.step("source", () => void calls.push("source"), { doubt: "retry" });
          await run.branch(branch, (row) => row.step("mail", () => void calls.push("mail"), { doubt: "retry" }));
          await run.step(
            "end",
            () => {
              if (fails) throw notSent(new Error("not yet"));
            },
            { retry: { attempts: 1 }, doubt: "retry" },
          );
        },
        { keep: "365d" },
      );
    const expiries = async () => {
      const { items } = await store.list({ limit: 20 });
      return items.map(({ record: { action, expiresAt, settledAt } }) => {
        const isInAYear = expiresAt !== null && settledAt !== null && expiresAt >= settledAt + YEAR_MS;
        return `${action} ${expiresAt === null ? "never" : isInAYear ? "in a year" : "earlier"}`;
      });
    };
    await expect(go("left")).rejects.toThrow("not yet");
    expect((await expiries()).sort()).toEqual([
      "branch:onboard never",
      "run:onboard never",
      "step:onboard never",
      "step:onboard never",
      "step:onboard never",
    ]);
    await expect(go("links")).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    expect(calls).toEqual(["source", "mail"]);
    fails = false;
    await go("left");
    expect(calls).toEqual(["source", "mail"]);
    expect(new Set(await expiries())).toEqual(
      new Set(["branch:onboard in a year", "run:onboard in a year", "step:onboard in a year"]),
    );
  },
);
