import { rejected } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

eachStore("retryAll", (open) => {
  const by = { by: "ana", reason: "the provider is back" };

  async function deadLetters() {
    const bench = open();
    let down = true;
    const make = (name: string) =>
      bench.nt.action(name, {
        key: ["id"],
        run: async ({ id }: { id: number }) => {
          if (down) throw rejected(Object.assign(new Error("no"), { code: id % 2 === 0 ? "E_EVEN" : "E_ODD" }));
          return id;
        },
      });
    const [mail, sms] = [make("mail"), make("sms")];
    await mail.enqueueMany(Array.from({ length: 250 }, (_, id) => ({ id })));
    await sms.enqueueMany([{ id: 1 }]);
    const worker = bench.nt.worker({ concurrency: 50 });
    await worker.drain();
    const up = () => {
      down = false;
    };
    return { ...bench, worker, mail, up };
  }

  it("F45 brings back all dead letters, and a worker then runs them", async () => {
    const { nt, store, worker, up } = await deadLetters();
    expect((await store.stats()).states.failed).toBe(251);
    up();
    const { retried, refused } = await nt.retryAll({}, by);
    expect([retried.length, refused.length]).toEqual([251, 0]);
    await worker.drain();
    expect((await store.stats()).states).toMatchObject({ confirmed: 251, failed: 0 });
  });

  it("picks by action and by what the record says, up to a limit; a dry run changes nothing", async () => {
    const { nt, store, mail } = await deadLetters();
    const even = {
      action: "mail",
      where: ({ error }: { error: { code?: string } | null }) => error?.code === "E_EVEN",
    };
    expect((await nt.retryAll({ ...even, dryRun: true }, by)).retried).toHaveLength(125);
    expect((await store.stats()).states.failed).toBe(251);
    const { retried } = await nt.retryAll({ ...even, limit: 3 }, by);
    expect(retried).toHaveLength(3);
    expect(await mail.status({ key: retried[0] as string })).toMatchObject({ status: "queued" });
    expect((await nt.retryAll({ action: "sms" }, by)).retried).toHaveLength(1);
    expect((await store.stats()).states.failed).toBe(247);
  });

  it("wants a signature and a sound limit", async () => {
    const { nt } = open();
    await expect(nt.retryAll({}, { by: "", reason: "r" })).rejects.toThrow("by is missing");
    await expect(nt.retryAll({ limit: 0 }, by)).rejects.toThrow("limit is 0");
  });
});
