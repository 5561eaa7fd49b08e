import { notSent, rejected } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { gate } from "../../test/support/gate.ts";

eachStore("A6: the agent that acted", (open) => {
  it("is on the record and on the events; another agent with the same intent is a repeat", async () => {
    const { nt, another, record, events } = open({ agent: "billing-bot" });
    const send = nt.action("send", { key: ["to"], run: ({ to }: { to: string }) => ({ id: `msg_${to}` }) });
    const first = await send.attempt({ to: "ada" });
    expect(await record(first.key)).toMatchObject({ agent: "billing-bot", providerId: "msg_ada" });
    const other = another({ agent: "sales-bot" });
    const seen: unknown[] = [];
    other.on((event) => seen.push(event));
    const again = await other
      .action("send", { key: ["to"], run: (_: { to: string }) => ({ id: "other" }) })
      .attempt({ to: "ada" });
    expect(again).toMatchObject({ status: "done", replayed: true, key: first.key });
    expect(await record(first.key)).toMatchObject({ agent: "billing-bot" });
    expect(events).toContainEqual(expect.objectContaining({ type: "executed", agent: "billing-bot" }));
    // Who repeats is what a rate of duplicates by agent is made of.
    expect(seen).toContainEqual(expect.objectContaining({ type: "replayed", agent: "sales-bot" }));
  });

  it("may be named by each call, and need not be", async () => {
    const { nt, record, events } = open();
    const send = nt.action("send", { key: ["to"], run: (_: { to: string }) => "sent" });
    const named = await send.attempt({ to: "ada" }, { agent: "a" });
    const unnamed = await send.attempt({ to: "bob" });
    expect((await record(named.key)).agent).toBe("a");
    expect((await record(unnamed.key)).agent).toBeNull();
    expect(events.filter(({ type }) => type === "executed").map((event) => "agent" in event)).toEqual([true, false]);
    expect(await send.keyOf({ to: "ada" }, { agent: "b" })).toBe(named.key);
    expect(await nt.once("hello", ["ada"], () => 1, { agent: "c" })).toBe(1);
    const { items } = await nt.store.list({ limit: 10, agent: "c" });
    expect(items.map(({ record: { action } }) => action)).toEqual(["hello"]);
    await expect(send({ to: "eve" }, { agent: "a\nb" })).rejects.toThrow(/agent contains a control character/);
    await expect(send({ to: "eve" }, { agent: "" })).rejects.toThrow(/agent is a string of 0 characters/);
  });

  it("of a retry is the one that retried; the history names whose attempt failed", async () => {
    const { nt, another, record } = open({ agent: "a" });
    const options = { key: ["to"] as const, retry: { attempts: 1 } };
    const fails = nt.action("send", {
      ...options,
      run: (_: { to: string }) => {
        throw notSent(new Error("refused"));
      },
    });
    const { key } = await fails.attempt({ to: "ada" });
    const second = another({ agent: "b" }).action("send", { ...options, run: (_: { to: string }) => "sent" });
    await second({ to: "ada" });
    expect(await record(key)).toMatchObject({
      agent: "b",
      history: [{ event: "not-sent", attempt: 1, agent: "a" }],
    });
  });

  it("of a takeover is the one that took over; who fell silent before sending is kept", async () => {
    const { nt, another, record, clock } = open({ agent: "a" });
    const hold = gate();
    const slow = nt.action("send", {
      key: ["to"],
      lease: "10s",
      timeout: "5s",
      wait: 0,
      prepare: () => hold.opened,
      run: (_: { to: string }) => "by a",
    });
    const lost = slow.attempt({ to: "ada" });
    const key = await slow.keyOf({ to: "ada" });
    await expect.poll(async () => (await nt.status({ key })).status).toBe("in_flight");
    clock.advance(60_000);
    const second = another({ agent: "b" }).action("send", { key: ["to"], run: (_: { to: string }) => "by b" });
    expect(await second({ to: "ada" })).toBe("by b");
    hold.open(undefined);
    await lost;
    expect(await record(key)).toMatchObject({
      agent: "b",
      history: [{ event: "taken-over", attempt: 1, agent: "a", from: "claimed" }],
    });
  });

  it("of a doubt stays in the history when a person resolves it, and a resend is the resender's", async () => {
    const { nt, another, record } = open({ agent: "a" });
    const options = { key: ["to"] as const, wait: 0, retry: { attempts: 1 } };
    const doubtful = nt.action("send", {
      ...options,
      run: (_: { to: string }) => {
        throw new Error("no answer");
      },
    });
    const { key, status } = await doubtful.attempt({ to: "ada" });
    expect(status).toBe("unknown");
    await nt.resolve({ key }, { as: "done", result: { id: "msg_9" }, by: "ana", reason: "seen in the log" });
    const settled = await record(key);
    expect(settled).toMatchObject({ agent: "a", providerId: "msg_9" });
    expect(settled.history).toEqual([
      expect.objectContaining({ event: "doubt", agent: "a" }),
      expect.objectContaining({ event: "resolved-done", agent: "a", by: "ana" }),
    ]);
    const bob = await doubtful.attempt({ to: "bob" });
    const resender = another({ agent: "b" }).action("send", {
      ...options,
      doubt: "retry",
      wait: "5s",
      run: (_: { to: string }) => "by b",
    });
    await resender({ to: "bob" });
    expect(await record(bob.key)).toMatchObject({
      agent: "b",
      history: [
        { event: "doubt", agent: "a" },
        { event: "resend", agent: "a" },
      ],
    });
  });

  it("of queued work is who enqueued it, whoever works it off", async () => {
    const { nt, another, record } = open({ agent: "planner" });
    const run = (_: { to: string }) => ({ id: "msg_1" });
    const { key } = await nt.action("send", { key: ["to"], run }).enqueue({ to: "ada" });
    const named = another({ agent: "mail-worker" });
    named.action("send", { key: ["to"], run });
    const events: unknown[] = [];
    named.on((event) => events.push(event));
    await named.worker().drain();
    expect(await record(key)).toMatchObject({ state: "confirmed", agent: "planner", providerId: "msg_1" });
    expect(events).toContainEqual(expect.objectContaining({ type: "executed", agent: "planner" }));
  });

  it("of a task is who did it; who added it is in the history", async () => {
    const { nt, another, record } = open({ agent: "planner" });
    const { key } = await nt.queue<{ n: number }>("tasks").add({ n: 1 });
    expect((await record(key)).agent).toBe("planner");
    const queue = another({ agent: "coder" }).queue<{ n: number }, { id: string }>("tasks", {
      retry: { attempts: 3, backoff: 0 },
    });
    const task = await queue.take();
    await task?.giveBack();
    expect((await record(key)).agent).toBe("planner");
    const again = await queue.take({ agent: "coder-2" });
    await again?.done({ id: "commit_1" });
    expect(await record(key)).toMatchObject({
      agent: "coder-2",
      providerId: "commit_1",
      history: [{ event: "taken-over", agent: "planner" }],
    });
    await expect(queue.take({ agent: " " })).rejects.toThrow(/tasks\.take: agent/);
  });

  it("of a run is that of its steps, and each input of each() has it", async () => {
    const { nt, store } = open({ agent: "nobody" });
    await nt.run("onboard", 1, (run) => run.step("mail", () => "sent", { doubt: "retry" }), { agent: "runner" });
    await nt
      .action("send", { key: ["to"], run: (_: { to: string }) => "sent" })
      .each([{ to: "ada" }], { agent: "bulk" });
    const agents = (await store.list({ limit: 20 })).items.map(({ record }) => [record.action, record.agent]);
    expect(Object.fromEntries(agents)).toMatchObject({
      "run:onboard": "runner",
      "step:onboard": "runner",
      send: "bulk",
    });
  });

  it("that is refused for good is on its dead letter", async () => {
    const { nt, record, events } = open({ agent: "a" });
    const send = nt.action("send", {
      key: ["to"],
      run: (_: { to: string }) => {
        throw rejected(new Error("no such address"));
      },
    });
    const { key } = await send.attempt({ to: "ada" });
    expect(await record(key)).toMatchObject({ state: "failed", agent: "a", providerId: null });
    expect(events).toContainEqual(expect.objectContaining({ type: "failed", agent: "a" }));
  });
});
