/** refused(): surely not done, not retried by itself, and the corrected call may follow. */
import { type Nevertwice, NevertwiceError, outcomeOf, refused } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";

interface Mail {
  readonly order: string;
  readonly to: string;
}

const bad: Mail = { order: "A-1", to: "ada" };
const good: Mail = { order: "A-1", to: "ada@example.com" };
const invalid = new Error("invalid email");

function mailer(nt: Nevertwice) {
  const sent: string[] = [];
  let runs = 0;
  const send = nt.action("send_mail", {
    key: ["order"],
    free: ["to"],
    run: async ({ to }: Mail) => {
      runs += 1;
      if (!to.includes("@")) throw refused(invalid);
      sent.push(to);
      return to;
    },
  });
  return { send, sent, runs: () => runs };
}

eachStore("O4: refused()", (open) => {
  it("a direct call throws the cause at once, without another try; the corrected call runs", async () => {
    const { nt, events } = open();
    const { send, sent, runs } = mailer(nt);
    const error = await send(bad).catch((thrown: unknown) => thrown);
    expect(error).toBe(invalid);
    expect(outcomeOf(error)).toMatchObject({ status: "failed", final: false });
    expect(runs()).toBe(1);
    expect(await send.status(bad)).toMatchObject({ status: "failed", final: false });
    expect(await send.status(bad)).not.toHaveProperty("retryAt");
    expect(kinds(events)).toEqual(["failed"]);
    expect(await send(good)).toBe(good.to);
    expect(sent).toEqual([good.to]);
  });

  it("the same input may run again: it is not final", async () => {
    const { nt } = open();
    const { send, runs } = mailer(nt);
    for (let call = 1; call <= 3; call += 1) {
      expect(await send.attempt(bad)).toMatchObject({ status: "failed", error: invalid, final: false });
      expect(runs()).toBe(call);
    }
  });

  it("a text is a message: what the caller gets is an Error", async () => {
    const { nt } = open();
    const pay = nt.action("pay", { run: () => Promise.reject(refused("insufficient funds")) });
    const error = await pay({ order: "A-1" } as never).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(NevertwiceError);
    expect((error as Error).message).toBe("insufficient funds");
  });

  it("wrapped in another error it still counts, and that error is what the caller gets", async () => {
    const { nt } = open();
    const wrapped = new Error("send failed", { cause: refused(invalid) });
    const send = nt.action("send", { run: () => Promise.reject(wrapped) });
    expect(await send.attempt({ id: 1 } as never)).toMatchObject({ status: "failed", error: wrapped, final: false });
  });

  it("queued work becomes a dead letter at its first try, and retry brings it back", async () => {
    const { nt, record } = open();
    let allowed = false;
    let runs = 0;
    const send = nt.action("send_mail", {
      key: ["order"],
      run: async ({ to }: Mail) => {
        runs += 1;
        if (!allowed) throw refused(invalid);
        return to;
      },
    });
    const { key } = await send.enqueue(good);
    const worker = nt.worker();
    await worker.drain();
    expect(runs).toBe(1);
    expect(await record(key)).toMatchObject({ state: "failed", final: false, error: { message: "invalid email" } });
    await worker.drain();
    expect(runs).toBe(1);
    allowed = true;
    await nt.retry({ key }, { by: "ada", reason: "the address was added" });
    await worker.drain();
    expect(await send.status({ key })).toMatchObject({ status: "done", result: good.to });
  });

  it("a sequence does not try the step again; restart() brings it back", async () => {
    const { nt, clock } = open();
    let runs = 0;
    let allowed = false;
    const drip = nt.sequence<{ email: string }, boolean>("welcome", ["hello"], {
      run: () => {
        runs += 1;
        if (!allowed) throw refused(invalid);
        return true;
      },
    });
    const worker = nt.worker();
    await drip.start("ann", { email: "a" });
    await worker.drain();
    clock.advance(86_400_000);
    await worker.drain();
    expect(runs).toBe(1);
    allowed = true;
    await drip.restart("ann", { by: "ada", reason: "corrected" });
    await worker.drain();
    expect(runs).toBe(2);
    expect((await drip.status("ann")).state).toBe("done");
  });

  it("a step of a run fails, and the run goes on from it when it is called again", async () => {
    const { nt } = open();
    const ran: string[] = [];
    let allowed = false;
    const order = () =>
      nt.run("order", "A-1", async (run) => {
        await run.step("reserve", () => ran.push("reserve"));
        return run.step("pay", () => {
          ran.push("pay");
          if (!allowed) throw refused("insufficient funds");
          return "paid";
        });
      });
    await expect(order()).rejects.toThrow("insufficient funds");
    allowed = true;
    expect(await order()).toBe("paid");
    expect(ran).toEqual(["reserve", "pay", "pay"]);
  });

  it("a task that is failed with it is not handed out again by itself", async () => {
    const { nt } = open();
    const queue = nt.queue<{ id: string }, string>("tasks", { key: ["id"] });
    const { key } = await queue.add({ id: "1" });
    const task = await queue.take();
    expect(await task?.fail(refused(invalid))).toMatchObject({ status: "failed", final: false });
    expect(await queue.take()).toBeNull();
    await nt.retry({ key }, { by: "ada", reason: "corrected" });
    const again = await queue.take();
    expect(await again?.done("done")).toMatchObject({ status: "done" });
  });
});
