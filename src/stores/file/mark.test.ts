/** The id file of a ledger that is removed or replaced while programs have the ledger open. */
import { copyFileSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { type Disk, localDisk } from "./disk.ts";
import { fileStore } from "./index.ts";

const put = (key: string) => ({ record: sampleRecord({ key, state: "pending" }), expected: null });

function open(path: string, disk: Disk = localDisk) {
  const store = fileStore({ path, disk });
  onTestFinished(() => store.close());
  return store;
}

/** Two programs that both have the ledger open and have read and written it. */
async function twoOpen() {
  const path = join(temporaryFolder(), "ledger.jsonl");
  const [a, b] = [open(path), open(path)];
  await a.write([put("nt1_a")]);
  await b.write([put("nt1_b")]);
  await a.read(["nt1_b"]);
  return { path, a, b };
}

const ways: readonly (readonly [what: string, change: (id: string, older: string) => void])[] = [
  ["removed", (id) => rmSync(id)],
  ["replaced by an older copy", (id, older) => renameSync(older, id)],
  ["overwritten with an older copy", (id, older) => copyFileSync(older, id)],
];

describe.each(ways)("an id file that is %s once", (_what, change) => {
  it("hides no later write of one program from the other: read, list, stats and lease", async () => {
    const { path, a, b } = await twoOpen();
    copyFileSync(`${path}.id`, `${path}.older`);
    await b.write([put("nt1_c")]);
    change(`${path}.id`, `${path}.older`);
    await b.write([put("nt1_d")]);
    expect((await a.read(["nt1_c", "nt1_d"])).map((row) => row !== null)).toEqual([true, true]);
    expect((await a.list({ limit: 10 })).items).toHaveLength(4);
    await b.write([put("nt1_e")]);
    expect((await a.stats()).total).toBe(5);
    expect(existsSync(`${path}.id`)).toBe(true);
    expect(readFileSync(`${path}.id`, "utf8")).toContain('"0000000000000005"');
  });

  it("hides nothing that was acknowledged before it, though nobody writes again", async () => {
    const { path, a, b } = await twoOpen();
    copyFileSync(`${path}.id`, `${path}.older`);
    await b.write([put("nt1_c")]);
    await a.read(["nt1_c"]);
    await b.write([put("nt1_d")]);
    change(`${path}.id`, `${path}.older`);
    expect((await a.read(["nt1_d"]))[0]).not.toBeNull();
    expect((await b.stats()).total).toBe(4);
  });
});

describe("an id file that is made again", () => {
  it("never counts less than was acknowledged, at any moment that others can see it", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const counted: string[] = [];
    const disk: Disk = {
      ...localDisk,
      rename(from, to) {
        localDisk.rename(from, to);
        if (to.endsWith(".id")) counted.push(/"synced":"0*(\d+)"/.exec(readFileSync(to, "utf8"))?.[1] ?? "?");
      },
    };
    const store = open(path, disk);
    for (const key of ["nt1_a", "nt1_b", "nt1_c"]) await store.write([put(key)]);
    rmSync(`${path}.id`);
    await store.read(["nt1_a"]);
    expect(counted).toEqual(["0", "3"]);
  });
});

describe("a worker whose ledger's id file was removed", () => {
  it("still runs what another program enqueues, and status knows what that one did", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const ran: string[] = [];
    const program = () => {
      const nt = nevertwice({ store: `file:${path}`, sweep: false });
      onTestFinished(() => nt.close());
      return {
        nt,
        action: nt.action("a", { key: ["id"], run: async ({ id }: { id: string }) => void ran.push(id) }),
      };
    };
    const [one, other] = [program(), program()];
    await one.action({ id: "first" });
    await other.action.status({ id: "first" });
    rmSync(`${path}.id`);
    await other.action.enqueue({ id: "queued" });
    await other.action({ id: "direct" });
    expect((await one.action.status({ id: "direct" })).status).toBe("done");
    await one.nt.worker().drain();
    expect(ran).toContain("queued");
  });
});
