/** Names that not every store can hold are refused where they enter; text from elsewhere is made storable. */
import { join } from "node:path";
import { type Nevertwice, nevertwice } from "nevertwice";
import { sqliteStore } from "nevertwice/sqlite";
import { sampleRecord } from "nevertwice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { McpGuard } from "../src/agents/mcp/guard.ts";
import { parse } from "../src/cli/command-line.ts";
import { COMMANDS } from "../src/cli/registry.ts";
import { deriveKey } from "../src/core/key/key.ts";
import { storableText, unstorableIn } from "../src/core/storable-text.ts";
import { eachStore, temporaryFolder } from "./support/each-store.ts";

const BAD: readonly [what: string, text: string][] = [
  ["U+0000", "a\0b"],
  ["the first half of a surrogate pair", "a\ud83d"],
  ["the second half of a surrogate pair", "\ude00b"],
];

describe.each(BAD)("a name with %s", (_what, bad) => {
  const open = (options = {}): Nevertwice => {
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {}, ...options });
    onTestFinished(() => nt.close());
    return nt;
  };
  const send = (nt: Nevertwice) =>
    nt.action("send", {
      key: ["id"],
      limit: { concurrency: 1, by: ({ to }: { id: string; to?: string }) => (to === "bad" ? bad : "fine") },
      run: async ({ id }: { id: string; to?: string }) => {
        ran += 1;
        return id;
      },
    });
  let ran = 0;
  const config = { code: "CONFIG", message: /not every store can hold/ };
  const invalid = { code: "INVALID_KEY", message: /not every store can hold/ };

  it.each<[string, (nt: Nevertwice) => unknown, object]>([
    ["an action", (nt) => nt.action(bad, { run: () => 1 }), config],
    ["a queue", (nt) => nt.queue(bad), config],
    ["a job", (nt) => nt.job(bad, { every: "1h", run: () => 1 }), config],
    ["a sequence", (nt) => nt.sequence(bad, ["one"], { run: () => 1 }), config],
    ["a sequence's step", (nt) => nt.sequence("drip", [bad], { run: () => 1 }), config],
    [
      "a sequence's subject",
      (nt) => nt.sequence("drip", ["one"], { run: () => 1 }).start(bad, undefined),
      { code: "CONFIG" },
    ],
    ["nt.once", (nt) => nt.once(bad, ["x"], () => 1), config],
    ["a run", (nt) => nt.run(bad, "x", () => 1), config],
    ["a scope", (nt) => send(nt)({ id: "1" }, { scope: bad }), invalid],
    ["a call's tenant", (nt) => send(nt)({ id: "1" }, { tenant: bad }), invalid],
    ["an orderKey", (nt) => send(nt).enqueue({ id: "1" }, { orderKey: bad }), config],
    ["an enqueue's scope", (nt) => send(nt).enqueue({ id: "1" }, { scope: bad }), invalid],
    ["by", (nt) => send(nt).resend({ id: "1" }, { by: bad, reason: "r" }), { code: "INVALID_INPUT" }],
    ["a reason", (nt) => nt.retryAll({}, { by: "me", reason: bad }), { code: "INVALID_INPUT" }],
    ["nevertwice()'s tenant", () => nevertwice({ store: "memory:", tenant: bad }), config],
  ])("is refused: %s", async (_where, name, error) => {
    ran = 0;
    const nt = open();
    await expect((async () => name(nt))()).rejects.toMatchObject(error);
    expect(ran).toBe(0);
    expect((await nt.store.stats()).total).toBe(0);
  });

  it("is refused as the name of a run's step, and the step does not run", async () => {
    ran = 0;
    const step = () => {
      ran += 1;
    };
    await expect(open().run("r", "x", (run) => run.step(bad, step))).rejects.toMatchObject(config);
    expect(ran).toBe(0);
  });

  it("is no destination of a limit: the record is put aside, and others run", async () => {
    ran = 0;
    const nt = open();
    const action = send(nt);
    await action.enqueue({ id: "1", to: "bad" });
    await action.enqueue({ id: "2", to: "fine" });
    expect(await nt.worker().drain()).toMatchObject({ done: 1, failed: 1 });
    expect(ran).toBe(1);
  });

  it("is no name in a key, however it got there", () => {
    const identity = { tenant: "", action: "a", version: 1, scope: null, parts: ["x"] };
    for (const given of [{ tenant: bad }, { action: bad }, { scope: bad }])
      expect(() => deriveKey({ ...identity, ...given })).toThrow(/not every store can hold/);
  });

  it("is refused as a flag of the command", () => {
    expect(() => parse(["ls", `--scope=${bad}`], COMMANDS)).toThrow(/--scope: it contains/);
  });

  it("as the name of a tool gets a JSON-RPC error, and the tool is not called", async () => {
    const nt = open();
    const guard = new McpGuard({ nt, config: {}, server: "files", identity: "files" });
    let called = 0;
    const forward = async () => {
      called += 1;
      return { content: [] };
    };
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: bad, arguments: {} } } as const;
    await expect(guard.answer({ message, forward }, forward)).rejects.toMatchObject({
      name: "RpcFailure",
      code: -32_602,
      message: /Not run: the tool's name cannot be kept/,
    });
    expect(called).toBe(0);
    expect((await nt.store.stats()).total).toBe(0);
  });
});

describe("text from elsewhere is kept, not refused", () => {
  it("what cannot be held becomes U+FFFD, and the rest stays", () => {
    expect(storableText("a\0b\ud83dc😀")).toBe("a\ufffdb\ufffdc😀");
    expect(unstorableIn("ü 😀 \u001f\n")).toBeNull();
  });

  eachStore("an error and a result with U+0000 in them", (open) => {
    it("are stored, and the ledger opens again", async () => {
      const { nt, another } = open();
      const fail = nt.action("fail", {
        key: ["id"],
        classify: () => "rejected",
        run: async (_: { id: string }): Promise<void> => {
          throw Object.assign(new Error("bad \0 byte"), { name: "Bad\0", code: "E\0" });
        },
      });
      const odd = nt.action("odd", {
        key: ["id"],
        run: async (_: { id: string }) => ({
          toJSON() {
            throw new Error("no \0 way");
          },
        }),
      });
      expect(await fail.attempt({ id: "x\0" })).toMatchObject({ status: "failed" });
      await odd.attempt({ id: "1" });
      const again = another();
      expect(await again.store.list({ limit: 10 })).toMatchObject({ items: { length: 2 }, cursor: null });
      expect(await again.store.list({ limit: 10 })).not.toHaveProperty("damaged");
    });
  });
});

it("one row with U+0000 in its action, from an earlier release, does not take the SQLite ledger away", async () => {
  const path = join(temporaryFolder(), "ledger.db");
  const old = sqliteStore({ path });
  await old.write([{ record: sampleRecord({ key: "nt1_old", action: "files/a\0b" }), expected: null }]);
  await old.close();
  const warnings: string[] = [];
  const onWarning = (warning: Error) => warnings.push(warning.message);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const nt = nevertwice({ store: sqliteStore({ path }), sweep: false });
  onTestFinished(() => nt.close());
  expect(await nt.once("other", ["x"], () => "ran")).toBe("ran");
  expect(await nt.store.list({ limit: 10 })).toMatchObject({
    items: [{ record: { action: "other" } }],
    damaged: [{ key: "nt1_old", message: /is damaged: its row does not match its checksum/ }],
  });
  await expect.poll(() => warnings).toEqual([expect.stringMatching(/nt1_old .* is damaged/)]);
});
