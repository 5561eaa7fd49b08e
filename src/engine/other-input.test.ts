import { notSent, rejected } from "nevertwice";
import { describe, expect, it } from "vitest";
import { type Bench, eachStore, kinds, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  id: string;
  to: string;
  body?: string;
}

const WRONG: Mail = { id: "1", to: "wrong" };
const RIGHT: Mail = { id: "1", to: "ana@example.com" };
const [FIRST, SECOND, THIRD] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString("base64")) as [
  string,
  string,
  string,
];
const BY = { by: "ana", reason: "looked at the provider" };

/** Throws for the wrong address, as `says`; sends everything else. */
function mailer(nt: Bench["nt"], says: (error: Error) => unknown, options: object = {}) {
  const sent: Mail[] = [];
  const seen: { input: Mail; attempt: number; fence: number }[] = [];
  const send = nt.action("mail", {
    key: ["id"],
    free: ["body"],
    ...options,
    run: async (input: Mail, { attempt, fence }: { attempt: number; fence: number }) => {
      seen.push({ input, attempt, fence });
      if (input.to === "wrong") throw says(new Error("invalid email"));
      sent.push(input);
      return `sent to ${input.to}`;
    },
  });
  return { send, sent, seen };
}

eachStore("another input for what is known not to have happened", (open) => {
  it("a refusal for good: the same input gets the stored refusal, the corrected one runs", async () => {
    const { nt, record, events } = open();
    const { send, sent, seen } = mailer(nt, rejected);
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    await expect(send(WRONG)).rejects.toMatchObject({ code: "FAILED" });
    expect(seen).toHaveLength(1);
    expect(await send(RIGHT)).toBe("sent to ana@example.com");
    expect(seen.at(-1)).toEqual({ input: RIGHT, attempt: 2, fence: 2 });
    const now = await record(await send.keyOf(RIGHT));
    expect(now).toMatchObject({ state: "confirmed", attempt: 2, tries: 1, final: false });
    expect(now.history.map(({ event }) => event)).toEqual(["rejected", "corrected"]);
    expect(kinds(events)).not.toContain("conflict");
    // Now it happened: the first input is the other one.
    expect(await send.attempt(WRONG)).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(sent).toEqual([RIGHT]);
  });

  it("a correction that is refused for good is the refusal that its repeats get", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["id"],
      run: async ({ to }: Mail) => {
        runs += 1;
        throw rejected(new Error(`${to} is blocked`));
      },
    });
    for (const [input, count] of [
      [WRONG, 1],
      [RIGHT, 2],
      [RIGHT, 2],
    ] as const) {
      const outcome = await send.attempt(input);
      expect(outcome).toMatchObject({ status: "failed", final: true, error: { message: `${input.to} is blocked` } });
      expect(runs).toBe(count);
    }
  });

  it("one that waits for its next try: the corrected input runs at once, in a round of its own", async () => {
    const { nt, record } = open();
    const retry = { attempts: 3, backoff: "1h", max: "1h" };
    const { send, seen } = mailer(nt, notSent, { retry, wait: 0 });
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: false, retryAt: expect.any(Number) });
    expect(await send(RIGHT)).toBe("sent to ana@example.com");
    expect(seen.map(({ input }) => input.to)).toEqual(["wrong", "ana@example.com"]);
    expect(await record(await send.keyOf(RIGHT))).toMatchObject({ state: "confirmed", tries: 1, attempt: 2 });
  });

  it("a doubt that somebody resolved as not done, and one resolved as failed", async () => {
    for (const as of ["not-done", "failed"] as const) {
      const { nt } = open();
      const { send, sent } = mailer(nt, (error) => error);
      expect(await send.attempt(WRONG)).toMatchObject({ status: "unknown" });
      await send.resolve(WRONG, { as, ...BY });
      expect(await send(RIGHT)).toBe("sent to ana@example.com");
      expect(sent).toEqual([RIGHT]);
    }
  });

  it("a claim whose holder fell silent before the send mark", async () => {
    const { nt, another, clock } = open();
    const hold = gate();
    const options = {
      key: ["id"] as const,
      lease: "10s",
      timeout: "9s",
      wait: 0,
      run: async (input: Mail) => input.to,
    } as const;
    const begun = gate();
    const slow = nt.action("mail", {
      ...options,
      prepare: async () => {
        begun.open();
        await hold.opened;
      },
    });
    const first = slow.attempt(WRONG).catch((error: unknown) => error);
    await begun.opened;
    const other = another().action("mail", options);
    expect(await other.attempt(RIGHT)).toMatchObject({ status: "conflict", differs: ["to"] });
    clock.advance(60_000);
    expect(await other(RIGHT)).toBe("ana@example.com");
    hold.open();
    // Its own call finds that the other input has happened.
    expect(await first).toMatchObject({ status: "conflict", differs: ["to"] });
  });

  it("past its keep nothing is compared", async () => {
    const { nt, clock } = open();
    const { send } = mailer(nt, rejected, { keep: "1h" });
    await send(RIGHT);
    clock.advance(2 * 3_600_000);
    expect(await send({ ...RIGHT, to: "bob" })).toBe("sent to bob");
  });
});

eachStore("another input for what may have happened", (open) => {
  const lost = (error: Error) => error;

  it("is told of the doubt, with what differs: never a conflict, and never run", async () => {
    const { nt, events } = open();
    const { send, sent } = mailer(nt, lost);
    await send.attempt(WRONG);
    expect(await send.attempt(WRONG)).not.toHaveProperty("differs");
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", attempt: 1, differs: ["to"] });
    await expect(send(RIGHT)).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
      message: expect.stringContaining("This call's input differs in: to; it was not run."),
    });
    expect(sent).toEqual([]);
    expect(kinds(events)).not.toContain("conflict");
  });

  it("a holder that fell silent after the send mark", async () => {
    const { nt, another, clock } = open();
    const [begun, end] = [gate(), gate()];
    const first = nt.action("mail", {
      key: ["id"],
      lease: "10s",
      timeout: "9s",
      run: async (_: Mail) => {
        begun.open();
        await end.opened;
        return "late";
      },
    });
    const running = first.attempt(WRONG);
    await begun.opened;
    clock.advance(60_000);
    const { send, sent } = mailer(another(), lost);
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", differs: ["to"] });
    end.open();
    await running;
    // It happened after all.
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(sent).toEqual([]);
  });

  it.each([
    ["retry", "retry"],
    ["resendWithin", { resendWithin: "24h" }],
  ])("%s: what the policy would send again is not sent with the other input", async (_, doubt) => {
    const { nt, record } = open();
    const { send, seen } = mailer(nt, lost, { doubt, retry: { attempts: 1, backoff: "1s", max: "1s" }, wait: 0 });
    await send.attempt(WRONG);
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", differs: ["to"] });
    expect(seen.map(({ input }) => input.to)).toEqual(["wrong"]);
    // The same input is sent again, as the action says.
    await send.attempt(WRONG);
    expect(seen.map(({ input }) => input.to)).toEqual(["wrong", "wrong"]);
    expect(await record(await send.keyOf(WRONG))).toMatchObject({ state: "unknown", attempt: 2 });
  });

  it.each(["not-done", "done"] as const)("a probe is asked about what was sent; it answers %s", async (answer) => {
    const { nt } = open();
    const asked: Mail[] = [];
    const probe = async (input: Mail) => {
      asked.push(input);
      return answer === "done" ? { as: "done" as const, result: "found" } : ("not-done" as const);
    };
    const { send, sent } = mailer(nt, lost, { doubt: { probe, quietFor: 0 }, wait: 0 });
    expect(await send.attempt(WRONG)).toMatchObject({ status: "unknown" });
    const outcome = await send.attempt(RIGHT);
    expect(asked).toEqual([WRONG]);
    if (answer === "done") expect(outcome).toMatchObject({ status: "conflict", differs: ["to"] });
    else expect(outcome).toMatchObject({ status: "done", replayed: false, result: "sent to ana@example.com" });
    expect(sent).toEqual(answer === "done" ? [] : [RIGHT]);
  });

  it("a reworded free field is the same input: the doubt has no differs", async () => {
    const { nt } = open();
    const { send } = mailer(nt, lost);
    await send.attempt({ ...WRONG, body: "Dear Ana" });
    expect(await send.attempt({ ...WRONG, body: "Hi" })).not.toHaveProperty("differs");
  });

  it("beside a call of the same process that waits for the doubt to settle", async () => {
    const { nt } = open();
    const asked = gate();
    const answer = gate();
    const probe = async () => {
      asked.open();
      await answer.opened;
      return "unknown" as const;
    };
    const { send } = mailer(nt, lost, { doubt: { probe, quietFor: 0 }, wait: 0 });
    await send.attempt(WRONG);
    const waiting = send.attempt(WRONG);
    await asked.opened;
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", differs: ["to"] });
    answer.open();
    expect(await waiting).toMatchObject({ status: "unknown" });
  });
});

eachStore("another input for queued work", (open) => {
  const queue = (nt: Bench["nt"], says: (error: Error) => unknown = (error) => error, options: object = {}) =>
    mailer(nt, says, { retry: { attempts: 3, backoff: "1h", max: "1h" }, ...options });

  it("waits for its first try: a conflict, for an enqueue and for a call", async () => {
    const { nt, record } = open();
    const { send, sent } = queue(nt);
    await send.enqueue(WRONG);
    await expect(send.enqueue(RIGHT)).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(sent).toEqual([]);
    expect(await record(await send.keyOf(WRONG))).toMatchObject({ state: "pending", attempt: 0, tries: 0 });
  });

  it("waits for its next try: a conflict, since a worker runs it again with the input on record", async () => {
    const { nt } = open();
    const { send } = queue(nt, notSent);
    await send.enqueue(WRONG);
    await nt.worker().tick();
    expect(await send.status(WRONG)).toMatchObject({ status: "queued" });
    await expect(send.enqueue(RIGHT)).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    expect(await send.attempt(RIGHT, { wait: 0 })).toMatchObject({ status: "conflict" });
  });

  it.each(["an enqueue", "a call"])("a dead letter, refused for good: corrected by %s", async (by) => {
    const { nt, record } = open();
    const { send, sent, seen } = queue(nt, rejected);
    await send.enqueue(WRONG);
    const worker = nt.worker();
    await worker.tick();
    expect(await send.enqueue(WRONG)).toMatchObject({ created: false, state: "failed" });
    await worker.tick();
    expect(seen).toHaveLength(1);
    if (by === "a call") expect(await send(RIGHT)).toBe("sent to ana@example.com");
    else {
      expect(await send.enqueue(RIGHT)).toMatchObject({ created: false, state: "pending" });
      expect(await record(await send.keyOf(RIGHT))).toMatchObject({ final: false, tries: 0, error: null });
      // Queued again, it is going to happen.
      await expect(send.enqueue({ ...RIGHT, to: "third" })).rejects.toMatchObject({ code: "KEY_CONFLICT" });
      await worker.tick();
    }
    expect(sent).toEqual([RIGHT]);
  });

  it.each(["an enqueue", "a call"])(
    "resolved as not done: corrected by %s before a worker has begun it",
    async (by) => {
      const { nt, record } = open();
      const { send, sent, seen } = queue(nt);
      await send.enqueue(WRONG);
      const worker = nt.worker();
      await worker.tick();
      expect(await send.status(WRONG)).toMatchObject({ status: "unknown" });
      await expect(send.enqueue(RIGHT)).rejects.toMatchObject({
        code: "OUTCOME_UNKNOWN",
        outcome: { status: "unknown", differs: ["to"] },
      });
      await send.resolve(WRONG, { as: "not-done", ...BY });
      if (by === "a call") expect(await send(RIGHT)).toBe("sent to ana@example.com");
      else {
        expect(await send.enqueue(RIGHT)).toMatchObject({ created: false, state: "pending" });
        expect(await record(await send.keyOf(RIGHT))).toMatchObject({ tries: 0, attempt: 1, queued: true });
        await worker.tick();
      }
      await worker.tick();
      expect(sent).toEqual([RIGHT]);
      expect(seen).toHaveLength(2);
    },
  );

  it("brought back by retry: somebody asked for it as it is, so that another input is a conflict", async () => {
    const { nt } = open();
    const { send } = queue(nt, rejected);
    await send.enqueue(WRONG);
    await nt.worker().tick();
    await nt.retry({ key: await send.keyOf(WRONG) }, BY);
    await expect(send.enqueue(RIGHT)).rejects.toMatchObject({ code: "KEY_CONFLICT" });
  });

  it("in an order: the corrected one keeps its place, and those behind it follow", async () => {
    const { nt } = open();
    const { send, sent } = queue(nt);
    const inOrder = { orderKey: "ana" };
    await send.enqueue(WRONG, inOrder);
    await send.enqueue({ id: "2", to: "second" }, inOrder);
    const worker = nt.worker();
    await worker.tick();
    await send.resolve(WRONG, { as: "not-done", ...BY });
    await send.enqueue(RIGHT, inOrder);
    await until(async () => {
      await worker.tick();
      return sent.length === 2;
    });
    expect(sent.map(({ to }) => to)).toEqual(["ana@example.com", "second"]);
  });

  it("in an order: a call corrects what was refused for good, at the end of the order", async () => {
    const { nt } = open();
    const { send, sent } = queue(nt, rejected);
    const inOrder = { orderKey: "ana" };
    await send.enqueue(WRONG, inOrder);
    const worker = nt.worker();
    await worker.tick();
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    expect(await send(RIGHT)).toBe("sent to ana@example.com");
    expect(sent).toEqual([RIGHT]);
  });
});

describe("where a correction meets other features", () => {
  it("each: a corrected row runs, a row in doubt is counted as unknown", async () => {
    const { nt } = openMemory();
    const { send, sent } = mailer(nt, (error) => (error.message === "" ? error : rejected(error)));
    const first = await send.each([WRONG, { id: "2", to: "bob" }]);
    expect(first).toMatchObject({ sent: 1, failed: 1 });
    const second = await send.each([RIGHT, { id: "2", to: "bob" }]);
    expect(second).toMatchObject({ sent: 1, replayed: 1, failed: 0 });
    expect(sent.map(({ to }) => to)).toEqual(["bob", "ana@example.com"]);
  });

  it("resend: the version that failed goes on with the corrected input; one in doubt is told of", async () => {
    const { nt } = openMemory();
    const { send, sent } = mailer(nt, (error) => error);
    await send(RIGHT);
    await expect(send.resend(WRONG, BY)).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await expect(send.resend({ ...RIGHT, to: "bob" }, BY)).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
      outcome: { differs: ["to"] },
    });
    await send.resolve(WRONG, { as: "not-done", ...BY }, { version: 2 });
    expect(await send.resend({ ...RIGHT, to: "bob" }, BY)).toBe("sent to bob");
    expect(sent.map(({ to }) => to)).toEqual(["ana@example.com", "bob"]);
  });

  it("encrypt: compared under the key of the record, after a rotation too; without the key nothing is run", async () => {
    const { nt, another } = openMemory({ encrypt: FIRST });
    await mailer(nt, rejected).send.attempt(WRONG);
    const rotated = another({ encrypt: [SECOND, FIRST] });
    const without = another({ encrypt: THIRD });
    await expect(mailer(without, rejected).send.attempt(RIGHT)).rejects.toMatchObject({ code: "CONFIG" });
    const { send, seen } = mailer(rotated, rejected);
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    expect(seen).toEqual([]);
    expect(await send(RIGHT)).toBe("sent to ana@example.com");
  });

  it("encrypt: a doubt under a key that is not given is told without differs, and not run", async () => {
    const { nt, another } = openMemory({ encrypt: FIRST });
    await mailer(nt, (error) => error).send.attempt(WRONG);
    const { send, seen } = mailer(another(), (error) => error);
    const outcome = await send.attempt(RIGHT);
    expect(outcome).toMatchObject({ status: "unknown" });
    expect(outcome).not.toHaveProperty("differs");
    expect(seen).toEqual([]);
  });

  it("formerly: what was refused under the former key is corrected under the new one, as one record", async () => {
    const { nt, another } = openMemory();
    const before = mailer(nt, rejected);
    await before.send.attempt(WRONG);
    const key = await before.send.keyOf(WRONG);
    const { send, sent } = mailer(another(), rejected, {
      key: ({ id }: Mail) => ["mail", id],
      formerly: { key: ["id"] },
    });
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true, key });
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "done", key, replayed: false });
    expect(sent).toEqual([RIGHT]);
    expect(await before.send.attempt(RIGHT)).toMatchObject({ status: "done", replayed: true });
  });

  it("formerly: a doubt under the former key is told of with differs", async () => {
    const { nt, another } = openMemory();
    await mailer(nt, (error) => error).send.attempt(WRONG);
    const { send, sent } = mailer(another(), (error) => error, {
      key: ({ id }: Mail) => ["mail", id],
      formerly: { key: ["id"] },
    });
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", differs: ["to"] });
    expect(sent).toEqual([]);
  });

  it("two processes correct it at once, with two inputs: one of them is sent", async () => {
    const { nt, another } = openMemory();
    const [a, b] = [mailer(nt, rejected), mailer(another(), rejected)];
    await a.send.attempt(WRONG);
    const outcomes = await Promise.all([
      a.send.attempt({ ...RIGHT, to: "a" }, { wait: 0 }),
      b.send.attempt({ ...RIGHT, to: "b" }, { wait: 0 }),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["conflict", "done"]);
    expect(a.sent.length + b.sent.length).toBe(1);
  });
});
