/** What is named as a ledger and is none: a folder, or a ledger of the other kind. Each says what it is and what to write. */
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
// The built package: its store starts a thread from dist.
import { nevertwice, type Store } from "nevertwice";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";

function open(name: string): Store {
  return nevertwice({ store: name, sweep: false }).store;
}

const refusal = (name: string) =>
  open(name)
    .read(["nt1_x"])
    .then(
      () => null,
      (error) => [error.code, error.message],
    );

describe.each([
  ["sqlite", "ledger.db"],
  ["file", "ledger.jsonl"],
])("%s:", (scheme, file) => {
  it("a folder is called a folder, and nothing is made in it or beside it", async () => {
    const folder = join(temporaryFolder(), "data");
    mkdirSync(join(folder, "inner"), { recursive: true });
    const around = readdirSync(join(folder, ".."));
    const [code, message] = (await refusal(`${scheme}:${folder}`)) ?? [];
    expect(code).toBe("CONFIG");
    expect(message).toContain(`${folder} is a folder`);
    expect(message).toContain(`${scheme}:${join(folder, file)}`);
    expect(readdirSync(folder)).toEqual(["inner"]);
    expect(readdirSync(join(folder, ".."))).toEqual(around);
  });

  it("a name with a slash at its end is refused as a folder, also where there is none", () => {
    const folder = temporaryFolder();
    expect(() => open(`${scheme}:${folder}/new/`)).toThrow(/names a folder, and a ledger is a file/);
    expect(readdirSync(folder)).toEqual([]);
  });
});

it.each([
  ["sqlite", "ledger.db", "file", /is a SQLite file, not a ledger of JSON lines/],
  ["file", "ledger.jsonl", "sqlite", /is a ledger of JSON lines, not SQLite/],
])("a ledger of %s: that is opened as the other kind is refused with its scheme, and left as it is", async (...one) => {
  const [scheme, file, wrong, said] = one;
  const path = join(temporaryFolder(), file);
  const right = nevertwice({ store: `${scheme}:${path}`, sweep: false });
  await right.once("greet", ["ada"], () => "hello");
  await right.close();
  const before = readFileSync(path);
  const [code, message] = (await refusal(`${wrong}:${path}`)) ?? [];
  expect([code, message]).toEqual(["CONFIG", expect.stringMatching(said)]);
  expect(message).toContain(`Name it with its scheme: ${scheme}:${path}`);
  expect(readFileSync(path)).toEqual(before);
  const again = nevertwice({ store: `${scheme}:${path}`, sweep: false });
  expect(await again.once("greet", ["ada"], () => "again")).toBe("hello");
  await again.close();
});
