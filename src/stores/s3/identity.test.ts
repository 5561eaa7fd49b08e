import { expect, it, onTestFinished, vi } from "vitest";
import { startS3 } from "../../../test/support/s3-server.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import type { S3Client, S3Object } from "./client.ts";
import { S3Identity } from "./identity.ts";
import { s3Store } from "./index.ts";

const credentials = { accessKeyId: "a", secretAccessKey: "b" };

/** A bucket in memory, and a monotonic clock that the test moves. */
function bench() {
  const objects = new Map<string, string>();
  let now = 0;
  const reads: string[] = [];
  const client = {
    get: async (name: string): Promise<S3Object | null> => {
      reads.push(name);
      const text = objects.get(name);
      return text === undefined ? null : { text, etag: "e", ageMs: 0 };
    },
    put: async (name: string, body: string) => {
      if (objects.has(name)) return { kind: "refused", retried: false };
      objects.set(name, body);
      return { kind: "written", etag: "e", retried: false };
    },
  } as unknown as S3Client;
  const open = () => new S3Identity({ client, name: "p/ledger-id", where: "s3://b/p/", monotonic: () => now });
  return { objects, reads, open, pass: (ms: number) => (now += ms) };
}

it.each([
  ["emptied", (objects: Map<string, string>) => objects.clear(), /was emptied while this program used it/],
  [
    "replaced by another ledger",
    (objects: Map<string, string>) => objects.set("p/ledger-id", '{"nevertwice":1,"ledger":"other"}'),
    /was replaced by another one while this program used it/,
  ],
] as const)("a bucket that is %s under a running program is refused, and stays so", async (_, loses, message) => {
  const { objects, open, pass } = bench();
  const identity = open();
  await identity.establish();
  pass(6_000);
  await identity.check();
  loses(objects);
  pass(6_000);
  await expect(identity.check()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await expect(identity.check()).rejects.toThrow(message);
  await expect(identity.check()).rejects.toThrow(
    /to go on deliberately with what is there now, start the program again/,
  );
});

it("is read again every five seconds at most, and once for callers at the same time", async () => {
  const { open, pass, reads } = bench();
  const identity = open();
  await identity.establish();
  reads.length = 0;
  await Promise.all([identity.check(), identity.check()]);
  expect(reads).toEqual([]);
  pass(5_001);
  await Promise.all([identity.check(), identity.check(), identity.check()]);
  expect(reads).toEqual(["p/ledger-id"]);
});

it("two programs that begin at once agree on one name, and each is served", async () => {
  const { open, pass } = bench();
  const both = [open(), open()];
  await Promise.all(both.map((one) => one.establish()));
  pass(6_000);
  await Promise.all(both.map((one) => one.check()));
});

it("an emptied bucket stops the calls of a running program before their effect", async () => {
  const server = await startS3();
  onTestFinished(() => server.close());
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  const store = s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  const nt = nevertwice({ store, sweep: false });
  onTestFinished(() => nt.close());
  let effects = 0;
  await nt.once("send", ["x"], async () => ++effects);
  server.objects.clear();
  const passed = performance.now() + 10_000;
  clock.mockImplementation(() => passed);
  await expect(store.write([{ record: sampleRecord({ key: "nt1_y" }), expected: null }])).rejects.toThrow(
    /was emptied/,
  );
  await expect(nt.once("send", ["y"], async () => ++effects)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(effects).toBe(1);
  const looks: [string, () => Promise<unknown>][] = [
    ["read", () => store.read(["nt1_y"])],
    ["lease", () => store.lease({ limit: 1, holder: "h", leaseMs: 1_000, to: "claimed" })],
    ["list", () => store.list({ limit: 10 })],
    ["stats", () => store.stats()],
    ["sweep", () => store.sweep({ limit: 10 })],
    ["inspect", () => store.inspect?.() ?? Promise.resolve()],
    ["quarantine", () => store.quarantine?.("nt1_y") ?? Promise.resolve()],
  ];
  for (const [name, look] of looks) await expect(look(), name).rejects.toThrow(/was emptied/);
  expect([...server.objects.keys()]).toEqual([]);
});
