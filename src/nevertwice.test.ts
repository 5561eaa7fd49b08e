import { existsSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../test/support/each-store.ts";

describe("nevertwice()", () => {
  it("refuses a sweep interval that would be a load of its own, and says what to write", () => {
    expect(() => nevertwice({ store: "memory:", sweep: 0 })).toThrow(/sweep is 0ms; give at least 10ms, or false/);
  });

  it("D5: after close() the ledger is one file: a copy of it has everything", async () => {
    const folder = temporaryFolder();
    const nt = nevertwice({ store: `sqlite:${join(folder, "ledger.db")}`, sweep: false });
    for (let i = 0; i < 20; i += 1) await nt.once("welcome", [`user-${i}`], () => i);
    await nt.close();
    await copyFile(join(folder, "ledger.db"), join(folder, "copy.db"));
    expect(existsSync(join(folder, "copy.db-wal"))).toBe(false);
    const copy = nevertwice({ store: `sqlite:${join(folder, "copy.db")}`, sweep: false });
    const again = await copy.once("welcome", ["user-19"], () => "ran again");
    await copy.close();
    expect(again).toBe(19);
  });
});
