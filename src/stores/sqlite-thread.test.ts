import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/each-store.ts";

it("the thread starts under node --input-type=module -e, in either spelling, and with flags of V8", () => {
  const program = (path: string) => `
    import { nevertwice } from "nevertwice";
    const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${path}`)}, sweep: false });
    // More callers than commit on the loop: the thread is needed.
    const all = await Promise.all(Array.from({ length: 32 }, (_, i) => nt.once("n", [i + 1], () => i)));
    await nt.close();
    console.log(all.length);`;
  const inputType = ["--input-type=module"];
  const memory = "--max-old-space-size=512";
  for (const flags of [inputType, ["--input-type", "module"], [memory, ...inputType]]) {
    const path = join(temporaryFolder(), "ledger.db");
    const printed = execFileSync(process.execPath, [...flags, "-e", program(path)], { encoding: "utf8" });
    expect(printed.trim()).toBe("32");
  }
});

it("the thread starts in a program that runs with flags of V8", () => {
  const folder = temporaryFolder();
  const program = join(folder, "program.mjs");
  writeFileSync(
    program,
    `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
     const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${join(folder, "ledger.db")}`)}, sweep: false });
     const all = await Promise.all(Array.from({ length: 32 }, (_, i) => nt.once("n", [i + 1], () => i)));
     await nt.close();
     console.log(all.length);`,
  );
  const printed = execFileSync(process.execPath, ["--max-old-space-size=512", "--expose-gc", program], {
    encoding: "utf8",
  });
  expect(printed.trim()).toBe("32");
});
