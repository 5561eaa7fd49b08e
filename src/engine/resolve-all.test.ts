import { notSent, type ResolveFilter } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

const by = { by: "ana", reason: "the provider's export has none of them" };

eachStore("resolveAll", (open) => {
  async function manyDoubts() {
    const bench = open();
    const ran: string[] = [];
    let broken = true;
    const make = (name: string) =>
      bench.nt.action(name, {
        key: ["id"],
        wait: 0,
        run: async ({ id }: { id: number }) => {
          ran.push(`${name} ${id}`);
          if (!broken) return id;
          if (id % 2 === 0) throw new Error(`socket hang up (request ${id})`);
          throw Object.assign(new Error(`no answer from "host-${id}"`), { code: "ETIMEDOUT" });
        },
      });
    const [mail, sms] = [make("mail"), make("sms")];
    await mail.each(Array.from({ length: 250 }, (_, id) => ({ id })));
    await sms.each([{ id: 1 }, { id: 2 }]);
    const mend = () => {
      broken = false;
    };
    return { ...bench, mail, sms, ran, mend };
  }

  it("one decision settles the doubts of a cause, page by page, and leaves all others", async () => {
    const { nt, store, mail, sms, mend } = await manyDoubts();
    const filter = { action: "mail", error: "Error: socket hang up (request #)" };
    const dry = await nt.resolveAll({ ...filter, dryRun: true }, { as: "not-done", ...by });
    expect([dry.resolved.length, dry.refused]).toEqual([125, []]);
    expect((await store.stats()).states.unknown).toBe(252);
    const { resolved, refused } = await nt.resolveAll(filter, { as: "not-done", ...by });
    expect([resolved.toSorted(), refused]).toEqual([dry.resolved.toSorted(), []]);
    expect((await store.stats()).states).toMatchObject({ unknown: 127, pending: 125 });
    mend();
    expect(await mail({ id: 4 })).toBe(4);
    expect(await mail.attempt({ id: 5 })).toMatchObject({ status: "unknown" });
    expect(await sms.attempt({ id: 2 })).toMatchObject({ status: "unknown" });
    const [first] = await store.read([resolved[0] as string]);
    expect(first?.record.history.at(-1)).toMatchObject({ event: "resolved-not-done", ...by });
    // Again: nothing is left to settle.
    expect(await nt.resolveAll(filter, { as: "not-done", ...by })).toEqual({ resolved: [], refused: [] });
  });

  it("picks by what the record says, by time, and up to a limit", async () => {
    const { nt, store } = await manyDoubts();
    const count = async (filter: ResolveFilter) =>
      (await nt.resolveAll({ ...filter, dryRun: true }, { as: "done", ...by })).resolved.length;
    expect(await count({ action: "sms" })).toBe(2);
    expect(await count({ where: ({ error }) => error?.code === "ETIMEDOUT" })).toBe(126);
    expect(await count({ action: "mail", limit: 7 })).toBe(7);
    expect(await count({ action: "mail", before: new Date("2020-01-01T00:00:00Z") })).toBe(0);
    expect(await count({ action: "mail", since: "2020-01-01T00:00:00Z" })).toBe(250);
    expect(await count({ action: "mail", since: Date.now() + 3_600_000 })).toBe(0);
    await nt.resolveAll({ action: "mail", limit: 3 }, { as: "failed", ...by });
    expect((await store.stats()).states).toMatchObject({ failed: 3, unknown: 249 });
  });

  it("a doubt that comes up while it runs is left: nobody has looked at it", async () => {
    const { nt, mail, mend, ran } = await manyDoubts();
    const { resolved } = await nt.resolveAll(
      { action: "mail", where: ({ key }) => key !== "" },
      { as: "not-done", ...by },
    );
    expect(resolved).toHaveLength(250);
    // In doubt again: the same decision made once more is a new one, and is about the new doubts.
    await mail.attempt({ id: 4 });
    expect(ran.filter((one) => one === "mail 4")).toHaveLength(2);
    const again = await nt.resolveAll({ action: "mail" }, { as: "not-done", ...by });
    expect(again.resolved).toHaveLength(1);
    mend();
    expect(await mail({ id: 4 })).toBe(4);
  });

  it("keeps to the tenant of nevertwice(), and settles everybody's only where that is said", async () => {
    const bench = open({ tenant: "acme" });
    const other = bench.another({ tenant: "other", sweep: false, onWarning: () => {} });
    const lost = async (nt: typeof other) => {
      const send = nt.action("mail", {
        key: ["id"],
        run: async (_: { id: number }) => {
          throw new Error("socket hang up");
        },
      });
      return (await send.attempt({ id: 1 })).key;
    };
    const [mine, theirs] = [await lost(bench.nt), await lost(other)];
    const decision = { as: "not-done", ...by } as const;
    const filter = { error: "Error: socket hang up", dryRun: true };
    expect((await bench.nt.resolveAll(filter, decision)).resolved).toEqual([mine]);
    await expect(bench.nt.resolveAll({ ...filter, tenant: "other" }, decision)).rejects.toThrow("confined to");
    const all = await bench.nt.resolveAll({ ...filter, tenants: "all" }, decision);
    expect(all.resolved.toSorted()).toEqual([mine, theirs].toSorted());
    await bench.nt.resolveAll({ action: "mail" }, decision);
    expect((await bench.record(theirs)).state).toBe("unknown");
    await other.close();
  });
});

describe("resolveAll", () => {
  it("says what is missing or wrong before anything is changed", async () => {
    const { nt } = openMemory();
    const decision = { as: "not-done", ...by } as const;
    const wrong = (filter: object, given: object = decision) =>
      nt.resolveAll(filter as ResolveFilter, given as typeof decision).then(
        () => "nothing",
        (error: Error) => error.message,
      );
    expect(await wrong({})).toContain("say which doubts the decision is about");
    expect(await wrong({ scope: "s" })).toContain("give action, error or where");
    expect(await wrong({ action: undefined })).toContain("action is undefined");
    expect(await wrong({ action: "mail", error: " " })).toContain("error is blank");
    expect(await wrong({ action: "mail", limit: 0 })).toContain("limit is 0");
    expect(await wrong({ action: "mail", before: "noon" })).toContain("before: the text is not an ISO date-time");
    expect(await wrong({ acton: "mail" })).toContain("Did you mean action?");
    expect(await wrong({ action: "mail" }, { as: "not-done", by: "", reason: "r" })).toContain("by is missing");
    expect(await wrong({ action: "mail" }, { ...decision, as: "sent" })).toContain('as is "sent"');
    expect(await wrong({ action: "mail" }, { ...decision, as: "done", result: 1 })).toContain("it takes no result");
    await nt.close();
    expect(await wrong({ action: "mail" })).toMatch(/closed/);
  });

  it("what failed is no doubt", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", {
      key: ["id"],
      wait: 0,
      run: async (_: { id: number }) => {
        throw notSent(new Error("down"));
      },
    });
    await send.attempt({ id: 1 });
    expect(await nt.resolveAll({ action: "mail" }, { as: "done", ...by })).toEqual({ resolved: [], refused: [] });
  });
});
