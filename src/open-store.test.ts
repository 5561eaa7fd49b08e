import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../test/support/each-store.ts";
import { chooseStore, openStore } from "./open-store.ts";
import { memoryStore } from "./stores/memory.ts";

const nameOf = (given: string) => openStore(given).name;

describe("openStore", () => {
  it("takes the names the README takes", () => {
    const cwd = process.cwd();
    expect(nameOf("memory:")).toBe("memory");
    expect(nameOf("sqlite:app.db")).toBe(`sqlite:${join(cwd, "app.db")}`);
    expect(nameOf("sqlite:./data/app.db")).toBe(`sqlite:${join(cwd, "data/app.db")}`);
    expect(nameOf("sqlite:/abs/app.db")).toBe("sqlite:/abs/app.db");
    expect(nameOf("sqlite:///abs/app.db")).toBe("sqlite:/abs/app.db");
    expect(nameOf("SQLite:/abs/app.db")).toBe("sqlite:/abs/app.db");
    expect(nameOf("data/app.sqlite3")).toBe(`sqlite:${join(cwd, "data/app.sqlite3")}`);
  });

  it("a store made by a factory is used as it is", () => {
    const store = memoryStore();
    expect(openStore(store)).toBe(store);
    expect(chooseStore(store, "store").why).toBe("passed by the program");
  });

  it.each([
    ["sqlite:", /names no file/],
    ["mysql://localhost/x", /no store "mysql:"/],
    ["ledger", /"ledger" is not a store/],
    ["", /is not a store/],
    ["sqlite::memory:", /For a ledger that forgets at exit use store: "memory:"/],
  ])("%s is refused with what to write instead", (name, message) => {
    expect(() => openStore(name)).toThrow(message);
    expect(() => openStore(name)).toThrow(expect.objectContaining({ code: "CONFIG" }));
  });

  it("an explicit name wins over $NEVERTWICE_STORE, which wins over the default", () => {
    vi.stubEnv("NEVERTWICE_STORE", "memory:");
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(chooseStore(undefined, "store")).toMatchObject({
      store: { name: "memory" },
      why: expect.stringMatching(/\$NEVERTWICE_STORE/),
    });
    expect(openStore("sqlite:/abs/x.db").name).toBe("sqlite:/abs/x.db");
    vi.stubEnv("NEVERTWICE_STORE", "nonsense");
    expect(() => openStore(undefined)).toThrow(/\$NEVERTWICE_STORE: "nonsense" is not a store/);
  });

  it("D5: without either it is the embedded ledger beside package.json", () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    mkdirSync(join(root, "src"));
    vi.stubEnv("NEVERTWICE_STORE", "");
    const cwd = vi.spyOn(process, "cwd").mockReturnValue(join(root, "src"));
    onTestFinished(() => {
      vi.unstubAllEnvs();
      cwd.mockRestore();
    });
    expect(openStore(undefined).name).toBe(`sqlite:${join(root, ".nevertwice", "ledger.db")}`);
  });
});
