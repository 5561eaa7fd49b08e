import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { loadDriver, type SqliteDriver, type SqliteHandle } from "../sqlite/driver.ts";
import { claimFile } from "./one-library.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const ownDriver = loadDriver();
/** A library that shares nothing with the first one: its marks are in databases of its own. */
const otherDriver: SqliteDriver = { name: "node:sqlite", file: "node:sqlite", open: () => ownDriver.open(":memory:") };
const connection = () => ({}) as SqliteHandle;

function ledger(): string {
  const path = join(temporaryFolder(), "ledger.db");
  writeFileSync(path, "");
  return path;
}

const others = /open in this process through another SQLite library/;

it.skipIf(process.platform === "win32")(
  "a claim is refused beside another library's, until that is released",
  async () => {
    const path = ledger();
    const held = connection();
    const first = claimFile(path, ownDriver);
    first.hold(held);
    expect(() => claimFile(path, { ...otherDriver, file: "other" })).toThrow(others);
    const second = claimFile(path, ownDriver);
    second.hold(held);
    first.release();
    expect(() => claimFile(path, { ...otherDriver, file: "other" })).toThrow(others);
    second.release();
    await expect.poll(() => claimFile(path, { ...otherDriver, file: "other" }).release()).toBeUndefined();
  },
);

it("a connection that was collected without a close holds no claim", async () => {
  const path = ledger();
  claimFile(path, ownDriver).hold(connection());
  await expect
    .poll(
      () => {
        collect();
        try {
          claimFile(path, otherDriver).release();
          return "claimed";
        } catch (error) {
          return String(error);
        }
      },
      { timeout: 20_000 },
    )
    .toBe("claimed");
});
