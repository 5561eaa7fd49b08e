/** What is queued is not forgotten while it can still be asked for: deadlines, limits, orders. */
import { notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const by = { by: "ada", reason: "asked to" };

eachStore("an intent with a deadline", (open) => {
  it.each([
    ["a moment", (now: number) => new Date(now + 60 * DAY)],
    ["a duration", () => "60d" as const],
  ])("that was done is known until the deadline, though keep is shorter: %s", async (_name, expiresOf) => {
    const { nt, clock } = open();
    let ran = 0;
    const offer = nt.action("offer", {
      key: ["id"],
      keep: "30d",
      run: (_: Record<string, unknown>) => {
        ran += 1;
      },
    });
    const expires = expiresOf(clock.instant().now);
    await offer.enqueue({ id: 1 }, { expires });
    const worker = nt.worker();
    for (let day = 0; day < 60; day += 1) {
      await worker.drain();
      await nt.sweep();
      expect(await offer.enqueue({ id: 1 }, { expires })).toMatchObject({ created: false, state: "confirmed" });
      clock.advance(DAY - 1_000);
    }
    expect(ran).toBe(1);
  });

  it("that ran out of tries and was brought back, or was refused, is known until the deadline", async () => {
    const { nt, clock } = open();
    const ran: string[] = [];
    const offer = nt.action("offer", {
      key: ["id"],
      keep: "10d",
      retry: { attempts: 1 },
      run: ({ id }: { id: string }) => {
        ran.push(id);
        if (ran.length === 1) throw notSent(new Error("no connection"));
      },
    });
    const expires = new Date(clock.instant().now + 60 * DAY);
    const { key } = await offer.enqueue({ id: "a" }, { expires });
    const worker = nt.worker();
    await worker.drain();
    clock.advance(DAY);
    await nt.retry({ key }, by);
    for (let day = 0; day < 58; day += 1) {
      await worker.drain();
      await nt.sweep();
      await offer.enqueue({ id: "a" }, { expires });
      clock.advance(DAY);
    }
    expect(ran).toEqual(["a", "a"]);
  });

  it("that expired stays expired for whoever enqueues it again with the same deadline", async () => {
    const { nt, clock } = open();
    let ran = 0;
    const offer = nt.action("offer", {
      key: ["id"],
      keep: "30d",
      run: (_: Record<string, unknown>) => {
        ran += 1;
      },
    });
    const expires = new Date(clock.instant().now + 60 * DAY);
    await offer.enqueue({ id: 1 }, { expires });
    const worker = nt.worker();
    clock.advance(61 * DAY);
    for (let day = 0; day < 90; day += 5) {
      await worker.drain();
      await nt.sweep();
      expect(await offer.enqueue({ id: 1 }, { expires })).toMatchObject({
        state: day < 30 ? "failed" : expect.any(String),
      });
      clock.advance(5 * DAY);
    }
    // Forgotten by now, and queued anew: it is past its deadline all the same.
    expect(ran).toBe(0);
  });
});

eachStore("an intent that was promised to be known until a deadline, with a shorter keep", (open) => {
  const offering = () => {
    const bench = open();
    const ran: string[] = [];
    let fails = 0;
    const offer = bench.nt.action("offer", {
      key: ["id"],
      keep: "1d",
      retry: { attempts: 1 },
      run: ({ id }: { id: string }) => {
        if (fails > 0) {
          fails -= 1;
          throw notSent(new Error("no connection"));
        }
        ran.push(id);
      },
    });
    const inDays = (days: number) => new Date(bench.clock.instant().now + days * DAY);
    const again = async (days: number, expires: Date) => {
      bench.clock.advance(days * DAY);
      await bench.nt.sweep();
      const { created } = await offer.enqueue({ id: "a" }, { expires });
      await bench.nt.worker().drain();
      return created;
    };
    const failOnce = () => {
      fails = 1;
    };
    return { ...bench, offer, ran, inDays, again, failOnce, drain: () => bench.nt.worker().drain() };
  };

  it("is known after a direct call ran it", async () => {
    const { offer, ran, inDays, again } = offering();
    const expires = inDays(10);
    await offer.enqueue({ id: "a" }, { expires });
    await offer({ id: "a" });
    expect(await again(9, expires)).toBe(false);
    expect(ran).toEqual(["a"]);
  });

  it("is known where it was called first and enqueued after", async () => {
    const { offer, ran, inDays, again, events } = offering();
    const expires = inDays(10);
    await offer({ id: "a" });
    expect(await offer.enqueue({ id: "a" }, { expires })).toMatchObject({ created: false, state: "confirmed" });
    expect(events.filter(({ type }) => type === "enqueued")).toEqual([]);
    expect(await again(9, expires)).toBe(false);
    await offer({ id: "a" });
    expect(ran).toEqual(["a"]);
  });

  it("is known until the later deadline, given while it waits", async () => {
    const { offer, ran, inDays, again, drain, events } = offering();
    await offer.enqueue({ id: "a" }, { expires: inDays(10) });
    const expires = inDays(20);
    expect(await offer.enqueue({ id: "a" }, { expires })).toMatchObject({ created: false, state: "pending" });
    expect(events.filter(({ type }) => type === "enqueued")).toHaveLength(1);
    await drain();
    expect(await again(15, expires)).toBe(false);
    expect(ran).toEqual(["a"]);
  });

  it("may be begun until the later deadline", async () => {
    const { offer, ran, inDays, again } = offering();
    await offer.enqueue({ id: "a" }, { expires: inDays(10) });
    const expires = inDays(20);
    await offer.enqueue({ id: "a" }, { expires });
    expect(await again(15, expires)).toBe(false);
    expect(ran).toEqual(["a"]);
  });

  it("is known until the later deadline, given after it was done", async () => {
    const { offer, ran, inDays, again, drain } = offering();
    await offer.enqueue({ id: "a" }, { expires: inDays(10) });
    await drain();
    const expires = inDays(20);
    expect(await again(5, expires)).toBe(false);
    expect(await again(10, expires)).toBe(false);
    expect(ran).toEqual(["a"]);
  });

  it("is known where it failed, was enqueued without a deadline, and then with it", async () => {
    const { offer, ran, inDays, again, drain, failOnce } = offering();
    const expires = inDays(10);
    failOnce();
    await offer.enqueue({ id: "a" }, { expires });
    await drain();
    await offer.enqueue({ id: "a" });
    await drain();
    expect(await again(9, expires)).toBe(false);
    expect(ran).toEqual(["a"]);
  });

  it("that expired is sent where it is enqueued anew, or called", async () => {
    for (const way of ["enqueue", "enqueue without a deadline", "call"] as const) {
      const { nt, offer, ran, inDays, clock, drain } = offering();
      const { key } = await offer.enqueue({ id: "a" }, { expires: inDays(0.1) });
      clock.advance(DAY / 2);
      await drain();
      expect(await nt.status({ key })).toMatchObject({ status: "failed", final: false, error: { code: "EXPIRED" } });
      if (way === "call") await offer({ id: "a" });
      else {
        const enqueued = await offer.enqueue({ id: "a" }, way === "enqueue" ? { expires: inDays(1) } : {});
        expect(enqueued).toMatchObject({ created: false, state: "pending" });
        await drain();
      }
      expect(ran, way).toEqual(["a"]);
    }
  });
});

eachStore("a slow rate", (open) => {
  it("is kept over a year of sweeps, idle or not: one in 90 days", async () => {
    const { nt, clock } = open();
    const begun: number[] = [];
    const letter = nt.action("letter", {
      key: ["id"],
      limit: { rate: "1/90d" },
      run: (_: Record<string, unknown>) => void begun.push(clock.instant().now),
    });
    const worker = nt.worker();
    for (let day = 0; day < 365; day += 5) {
      // Some weeks nobody wants anything, so that nothing touches the limit.
      if (day % 100 < 50) await letter.enqueue({ id: day });
      await worker.tick();
      await nt.sweep();
      clock.advance(5 * DAY);
    }
    expect(begun.length).toBeGreaterThanOrEqual(4);
    for (const [i, at] of begun.slice(1).entries()) expect(at - (begun[i] as number)).toBeGreaterThanOrEqual(90 * DAY);
  });
});

eachStore("tries of a step that the provider is asked about", (open) => {
  it("are as many as given, whoever asks: the worker, the sweep, a program that was started again", async () => {
    const bench = open();
    let ran = 0;
    const define = (nt: typeof bench.nt) =>
      nt.action("charge", {
        key: ["id"],
        retry: { attempts: 3, backoff: 1 },
        doubt: { probe: () => "not-done" as const, quietFor: "1m" },
        run: (_: Record<string, unknown>) => {
          ran += 1;
          throw new Error("no answer");
        },
      });
    const { key } = await define(bench.nt).enqueue({ id: 1 });
    for (let look = 0; look < 30; look += 1) {
      const nt = bench.another();
      define(nt);
      const worker = nt.worker();
      await worker.drain();
      await worker.stop();
      bench.clock.advance(120_000);
      await nt.sweep();
    }
    expect(ran).toBe(3);
    expect(await bench.record(key)).toMatchObject({ state: "failed", final: false, tries: 3 });
    // A dead letter as any other: it is brought back by name, for another round.
    await bench.nt.retry({ key }, by);
    const worker = bench.nt.worker();
    await worker.drain();
    expect(ran).toBe(4);
  });
});
