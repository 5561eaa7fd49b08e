/** K10: a renamed action, and orders: what was enqueued under the old name and under the new one is one order. */
import type { Nevertwice } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";

interface Mail {
  readonly id: number;
}

type Formerly = readonly { readonly name: string }[];

eachStore("K10: formerly and orderKey", (open) => {
  function fleet() {
    const { another, store } = open();
    const ran: number[] = [];
    let running = 0;
    let most = 0;
    const release = (name: string, formerly?: Formerly) => {
      const nt = another();
      const run = async ({ id }: Mail) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, id % 3 === 0 ? 10 : 1));
        running -= 1;
        ran.push(id);
      };
      const options = { key: ["id"] as const, run, ...(formerly !== undefined && { formerly }) };
      const send = nt.action<Mail, void>(name, options);
      const enqueue = async (...ids: number[]) => {
        for (const id of ids) await send.enqueue({ id }, { orderKey: "ann" });
      };
      return { nt, send, enqueue };
    };
    const places = async () => {
      const { items } = await store.list({ limit: 1_000 });
      const placed = items.filter(({ record }) => record.terms?.place !== undefined);
      const inOrder = placed.sort((a, b) => (a.record.terms?.place ?? 0) - (b.record.terms?.place ?? 0));
      return inOrder.map(({ record }) => idIn(record.input));
    };
    return { release, ran, most: () => most, places };
  }

  const idIn = (input: unknown) => (JSON.parse((input as { json: string }).json) as Mail).id;
  const drain = (workers: readonly Nevertwice[], done: () => boolean) =>
    until(async () => {
      await Promise.all(workers.map((nt) => nt.worker().drain()));
      return done();
    }, "the whole order");

  it("what the old name enqueued comes before what the new one did", async () => {
    const { release, ran } = fleet();
    const [before, now] = [release("mail"), release("send_mail", [{ name: "mail" }])];
    await before.enqueue(0, 1, 2);
    await now.enqueue(3, 4, 5);
    await drain([now.nt], () => ran.length === 6);
    expect(ran).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("renamed twice: three releases share the order of the oldest name", async () => {
    const { release, ran } = fleet();
    const first = release("mail");
    const second = release("send_mail", [{ name: "mail" }]);
    const third = release("post", [{ name: "send_mail" }, { name: "mail" }]);
    await second.enqueue(0);
    await third.enqueue(1);
    await first.enqueue(2);
    await third.enqueue(3);
    await drain([third.nt], () => ran.length === 4);
    expect(ran).toEqual([0, 1, 2, 3]);
  });

  it("both releases enqueue and work at once: one order, one at a time, each once", async () => {
    const { release, ran, most, places } = fleet();
    const [before, now] = [release("mail"), release("send_mail", [{ name: "mail" }])];
    const workers = [before.nt, now.nt];
    const enqueued = Promise.all([before.enqueue(0, 1, 2, 3, 4, 5), now.enqueue(10, 11, 12, 13, 14, 15)]);
    const working = drain(workers, () => ran.length === 12);
    await enqueued;
    await working;
    expect([...ran].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]);
    expect(ran.filter((id) => id < 10)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ran.filter((id) => id >= 10)).toEqual([10, 11, 12, 13, 14, 15]);
    expect(await places()).toEqual(ran);
    expect(most()).toBe(1);
  });

  it("the same intent from both releases has one place", async () => {
    const { release, ran } = fleet();
    const [before, now] = [release("mail"), release("send_mail", [{ name: "mail" }])];
    await Promise.all([before.enqueue(0, 1, 2), now.enqueue(0, 1, 2), now.enqueue(0, 1, 2)]);
    await drain([before.nt, now.nt], () => ran.length === 3);
    expect(ran).toEqual([0, 1, 2]);
  });
});
