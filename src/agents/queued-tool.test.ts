import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { queuedTool } from "./queued-tool.ts";
import { statusTool } from "./status-tool.ts";

interface Mail {
  readonly to: string;
  readonly body: string;
  readonly cents: number;
}

function world({ down = 0 } = {}) {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  const mails: Mail[] = [];
  let failures = down;
  const action = nt.action("send_mail", {
    key: ["to"],
    free: ["body"],
    retry: { attempts: 5, backoff: 1 },
    run: async (mail: Mail) => {
      failures -= 1;
      if (failures >= 0) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      return { id: `mail_${mails.push(mail)}` };
    },
  });
  const status = statusTool(nt);
  const send = queuedTool(action, { scope: ({ thread }: { thread: string }) => thread, statusTool: status.name });
  return { nt, mails, send, status };
}

const call = { thread: "thread-1" };
const hello = { to: "ada", body: "Hello", cents: 900 };

it("B4: the tool returns at once, and the outside call's fate does not touch its answer", async () => {
  const { nt, mails, send, status } = world({ down: 2 });
  const told = await send(hello, call);
  expect(told).toMatch(
    /^Accepted: send_mail will be carried out in the background\..*nevertwice_status .*Reference: nt1_/,
  );
  expect(mails).toHaveLength(0);
  const [reference] = /nt1_[0-9a-v]{52}/.exec(told) ?? [];
  expect(await status.execute({ reference })).toMatch(/^Scheduled, for .*Do not repeat it/);
  const worker = nt.worker();
  // Twice the provider is not to be reached; the agent is long gone.
  await expect.poll(async () => (await worker.drain()) && mails.length, { timeout: 10_000 }).toBe(1);
  expect(await status.execute({ reference })).toMatch(/^Done at .* Do not repeat it/);
});

it("B2 A3: a re-planned call in other words is the same order, before and after it was done; another amount is refused", async () => {
  const { nt, mails, send } = world();
  await send(hello, call);
  expect(await send.answer({ ...hello, body: "Good day" }, call)).toMatchObject({
    created: false,
    state: "pending",
    text: expect.stringMatching(
      /^Scheduled: send_mail will be carried out in the background.*There is nothing to repeat/,
    ),
  });
  expect(await send.answer({ ...hello, cents: 950 }, call)).toMatchObject({
    state: "conflict",
    text: expect.stringMatching(/^Refused, and nothing was done: .* with another cents/),
  });
  await nt.worker().drain();
  const again = await send.answer(hello, call);
  expect(again).toMatchObject({ state: "confirmed", result: { id: "mail_1" } });
  expect(again.text).toMatch(/^Already done at .*this is that result.*\n\{"id":"mail_1"\}$/s);
  // Another conversation is another order.
  expect(await send.answer(hello, { thread: "thread-2" })).toMatchObject({ created: true });
  await nt.worker().drain();
  expect(mails).toHaveLength(2);
});

it("terms of the order come from the options; what is no action is refused", async () => {
  const { nt } = world();
  const action = nt.action("later", { key: ["to"], run: async (mail: Mail) => mail.to });
  const later = queuedTool(action, {
    name: "send_later",
    scope: null,
    enqueue: ({ cents }) => ({ delay: cents * 1_000 }),
  });
  const { key, text } = await later.answer(hello, undefined);
  expect(text).toMatch(/^Accepted: send_later will be carried out/);
  const outcome = await nt.status({ key });
  expect(outcome.status === "queued" && outcome.dueAt > Date.now() + 800_000).toBe(true);
  await expect(later({ ...hello, to: " " }, undefined)).rejects.toMatchObject({ code: "INVALID_KEY" });
  expect(() => queuedTool((async () => {}) as never)).toThrow(/must be an action, as nt\.action\(\) returns it/);
  expect(() => queuedTool(action, { scop: "s" } as never)).toThrow(/queuedTool: there is no option "scop"/);
});
