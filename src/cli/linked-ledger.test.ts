/** The command on a ledger that is named by a link. */
import { chmodSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
});
afterEach(() => cli.close());

describe.each([
  ["sqlite", "ledger.db"],
  ["file", "ledger.jsonl"],
])("%s", (scheme, name) => {
  async function linked() {
    mkdirSync(join(cli.folder, "data"));
    const path = join(cli.folder, "data", name);
    symlinkSync(path, join(cli.folder, "link"));
    const store = ["--store", `${scheme}:link`];
    return { path, store };
  }

  async function use(path: string): Promise<void> {
    const nt = nevertwice({ store: `${scheme}:${path}`, sweep: false });
    await nt.once("greet", ["ada"], async () => "hello");
    await nt.close();
  }

  it("reads the ledger behind the link, and makes nothing beside the link", async () => {
    const { path, store } = await linked();
    expect((await cli.run(["ls", ...store])).out).toContain("There is no ledger at");
    await use(path);
    expect((await cli.run(["stats", ...store])).out).toContain("1 record");
    expect((await cli.run(["sweep", ...store])).code).toBe(0);
    expect(readdirSync(cli.folder).sort()).toEqual(["data", "link"]);
  });

  it("doctor looks at the files beside the ledger itself", async () => {
    const { path, store } = await linked();
    await use(path);
    chmodSync(`${path}.id`, 0o644);
    const { out } = await cli.run(["doctor", ...store], { columns: 200 });
    expect(out).toContain(`others than its owner can read or write ${name}.id`);
    expect(out.replace(/\s+/g, " ")).toContain(`data/${name} (through `);
  });

  it("a lost ledger is lost through the link too", async () => {
    const { path, store } = await linked();
    await use(path);
    rmSync(path);
    expect(await cli.run(["ls", ...store])).toMatchObject({ code: 3, err: expect.stringContaining("is gone, but") });
  });
});
