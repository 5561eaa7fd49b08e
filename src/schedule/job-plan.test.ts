/** A plan that the ledger cannot give back as it was is refused when it is made. */
import { notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

const DAY_MS = 86_400_000;
// Older slots are refused: their records may be past their keep.
const TODAY = Math.floor(Date.now() / DAY_MS) * DAY_MS;

class Topic {
  readonly name = "cost";
}

const circle: { self?: unknown } = {};
circle.self = circle;

const REFUSED: readonly (readonly [plan: unknown, message: RegExp])[] = [
  [{ items: ["x".repeat(3 * 1024 * 1024)] }, /as JSON it has 3145\d+ bytes, and 1048576 is the most.*id or path/],
  [{ price: 1n }, /plan\.price is a bigint\. Use a number or a string\./],
  [{ at: new Date(0) }, /plan\.at is a Date\. Use its ISO string: date\.toISOString\(\)\./],
  [{ list: [{ seen: new Map() }] }, /plan\.list\[0\]\.seen is a Map\. Use a plain object: Object\.fromEntries/],
  [new Set([1]), /plan is a Set\. Use an array: \[\.\.\.set\]\./],
  [{ note: undefined }, /plan\.note is undefined\. Leave it out, or use null\./],
  [[1, undefined], /plan\[1\] is undefined/],
  [new Array(2), /plan\[0\] is undefined/],
  [{ topic: new Topic() }, /plan\.topic is a Topic\. Copy the fields that are needed into a plain object\./],
  [{ send: () => 1 }, /plan\.send is a function\. Leave it out\./],
  [{ tag: Symbol("x") }, /plan\.tag is a symbol\. Leave it out\./],
  [{ score: Number.NaN }, /plan\.score is NaN\. Use null\./],
  [Number.POSITIVE_INFINITY, /plan is Infinity\. Use null\./],
  [{ score: -0 }, /plan\.score is -0\. Use 0\./],
  [{ body: Buffer.from("x") }, /plan\.body is a Buffer\. Use a string: Buffer\.from\(bytes\)\.toString\("base64"\)\./],
  [{ [Symbol("tag")]: 1 }, /plan\[Symbol\(tag\)\] is a property with a symbol as its name\. Use a text/],
  [Object.assign([1], { total: 1 }), /plan\.total is a property of an array, which JSON leaves out\. Use an object/],
  [circle, /plan\.self is an object that contains itself\. Leave the reference out\./],
];

const KEPT: readonly unknown[] = [
  undefined,
  null,
  0,
  "",
  "lone \ud800 and \u0000",
  { topic: "cost", avoid: ["a", null, { deep: [1.5, true] }] },
  "x".repeat(1024 * 1024 - 2),
];

eachStore("a job's plan", (open) => {
  it.each(REFUSED)(
    "that cannot be kept is refused with its path, and nothing of the slot is run: %#",
    async (plan, why) => {
      const { nt, store } = open();
      let ran = 0;
      let planned = 0;
      let given = plan;
      const job = nt.job("post", {
        every: "1d",
        plan: () => {
          planned += 1;
          return given;
        },
        run: () => ++ran,
      });
      const outcome = await job.runAt(TODAY);
      expect(outcome).toMatchObject({ status: "failed", final: false, error: { code: "INVALID_INPUT" } });
      const { message } = (outcome as { error: Error }).error;
      expect(message).toMatch(
        /^job "post": its plan cannot be kept, so that a second run of the slot would get another one: /,
      );
      expect(message).toMatch(why);
      expect(message).toMatch(/The slot was not run\.$/);
      expect([ran, planned]).toEqual([0, 1]);
      for (const action of ["job:post", "job-plan:post"]) {
        const { items } = await store.list({ action, limit: 9, states: ["confirmed", "sent", "unknown"] });
        expect(items).toEqual([]);
      }
      given = { topic: "cost" };
      expect(await job.runAt(TODAY)).toMatchObject({ status: "done" });
      expect([ran, planned]).toEqual([1, 2]);
    },
  );

  it.each(KEPT.map((plan) => [plan]))("that can be kept is the same in every run of the slot: %#", async (plan) => {
    const { nt, another } = open();
    const seen: unknown[] = [];
    const options = {
      every: "1d",
      retry: { attempts: 1 },
      plan: () => plan,
      run: ({ plan: given }: { plan: unknown }) => {
        seen.push(given);
        if (seen.length === 1) throw notSent(new Error("not today"));
      },
    };
    expect(await nt.job("post", options).runAt(TODAY)).toMatchObject({ status: "failed" });
    expect(
      await another()
        .job("post", { ...options, plan: () => "another" })
        .runAt(TODAY),
    ).toMatchObject({
      status: "done",
    });
    expect(seen).toStrictEqual([plan, plan]);
  });

  it("is a copy of what was returned: what is changed later does not change the plan", async () => {
    const { nt } = open();
    const drawn = { topics: ["cost"] };
    const seen: unknown[] = [];
    const job = nt.job("post", {
      every: "1d",
      plan: () => drawn,
      run: ({ plan }) => {
        drawn.topics.push("later");
        seen.push(plan);
      },
    });
    await job.runAt(TODAY);
    expect(seen).toEqual([{ topics: ["cost"] }]);
  });
});
