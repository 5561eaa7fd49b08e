import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/each-store.ts";

it("the thread starts under node --input-type=module -e, in either spelling", () => {
  const program = (path: string) => `
    import { nevertwice } from "nevertwice";
    const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${path}`)}, sweep: false });
    // More callers than commit on the loop: the thread is needed.
    const all = await Promise.all(Array.from({ length: 32 }, (_, i) => nt.once("n", [i + 1], () => i)));
    await nt.close();
    console.log(all.length);`;
  for (const flags of [["--input-type=module"], ["--input-type", "module"]]) {
    const path = join(temporaryFolder(), "ledger.db");
    const printed = execFileSync(process.execPath, [...flags, "-e", program(path)], { encoding: "utf8" });
    expect(printed.trim()).toBe("32");
  }
});
