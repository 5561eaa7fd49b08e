/** A guarded call, a worker and close() do not hang where a test has faked the timers: the ledger runs on real time. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import * as nevertwice from "nevertwice";
import { afterEach, describe, expect, it, vi } from "vitest";
import { flushableRedisDb, freshDatabase } from "../services/addresses.ts";
import { temporaryFolder } from "../support/each-store.ts";
import { startS3 } from "../support/s3-server.ts";
import { EXPECTED, scenario } from "./scenario.mjs";

const CHILD = fileURLToPath(new URL("./child.mjs", import.meta.url));
const redis = await flushableRedisDb();
const s3 = await startS3();
Object.assign(process.env, { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b", AWS_ENDPOINT_URL_S3: s3.endpoint });
let ledgers = 0;

const STORES: Readonly<Record<string, () => Promise<string>>> = {
  memory: async () => "memory:",
  sqlite: async () => `sqlite:${join(temporaryFolder(), "ledger.db")}`,
  file: async () => `file:${join(temporaryFolder(), "ledger.jsonl")}`,
  postgres: async () => (await freshDatabase()).url,
  redis: async () => `${redis}?prefix=fake-${++ledgers}&allowUnsafe=true`,
  s3: async () => `s3://ledger/fake-${++ledgers}`,
};

afterEach(() => void vi.useRealTimers());

type Fakes = NonNullable<Parameters<typeof vi.useFakeTimers>[0]>;

const FAKES: [string, Fakes | undefined][] = [
  ["all that vitest fakes by default", undefined],
  [
    "what the test names",
    {
      toFake: [
        "setTimeout",
        "clearTimeout",
        "setInterval",
        "clearInterval",
        "setImmediate",
        "clearImmediate",
        "performance",
        "hrtime",
        "Date",
      ],
      now: 0,
    },
  ],
  ["Date alone, years ahead", { toFake: ["Date"], now: Date.UTC(2040, 0, 1) }],
];

describe.each(Object.entries(STORES))("%s", (name, open) => {
  // Node's fetch waits for the global queueMicrotask: with that faked, nothing can be fetched from S3.
  const microtasks: typeof FAKES = name === "s3" ? [] : [["queueMicrotask", { toFake: ["queueMicrotask"] }]];

  it.each([...FAKES, ...microtasks])("vitest: %s", async (_, fakes) => {
    const store = await open();
    vi.useFakeTimers(fakes);
    expect(await scenario(nevertwice, store)).toEqual(EXPECTED);
  });

  it.each([
    ["node:test", "before"],
    ["node:test", "after"],
    ["node:test, setTimeout alone", "after"],
    ["process.nextTick that never runs", "before"],
  ])("%s, the package loaded %s", async (fake, loaded) => {
    const spec = JSON.stringify({ store: await open(), fake, loaded });
    const { stdout } = await promisify(execFile)(process.execPath, [CHILD, spec], { timeout: 20_000 });
    expect(JSON.parse(stdout)).toEqual(EXPECTED);
  });
});
