/** Runs whose steps failed or are in doubt, as somebody meets them who has to decide. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
});
afterEach(() => cli.close());

const wide = { columns: 160 };
const reason = ["--reason", "looked"];
/** Without the line breaks. */
const shown = async (key: string) => (await cli.run(["show", key], wide)).out.replace(/\s+/g, " ");

/** A run of "order" that ends at this step; `how`: what it throws. */
async function order(id: string, at: string, error: Error = new Error("socket hang up")): Promise<string> {
  const nt = cli.program();
  await nt
    .run("order", id, async (run) => {
      for (const step of ["charge", "mail"])
        await run.step(step, async () => {
          if (step === at) throw error;
          return 1;
        });
      throw error;
    })
    .catch(() => {});
  const { items } = await nt.store.list({ action: "run:order", limit: 1 });
  return items[0]?.record.key ?? "";
}

describe("doubts of different steps", () => {
  it("are different groups, which name the step, and one decision is about one of them", async () => {
    await order("a", "charge");
    await order("b", "mail");
    const { out } = await cli.run(["ls", "--doubt", "--group"], wide);
    expect(out).toContain("1 doubt, step:order › charge, Error: socket hang up");
    expect(out).toContain("1 doubt, step:order › mail, Error: socket hang up");
    const { groups } = (await cli.run(["ls", "--doubt", "--group", "--json"])).json;
    expect(groups.map(({ step, count }: { step: string; count: number }) => [step, count])).toEqual([
      ["charge", 1],
      ["mail", 1],
    ]);
    expect((await cli.run(["ls"], wide)).out).toContain("step:order › mail");
    const [first] = groups as { command: string; id: string }[];
    expect(first?.command).toBe(`nevertwice resolve --group ${first?.id} --not-done`);
    const settled = await cli.run(["resolve", "--group", first?.id ?? "", "--not-done", ...reason, "--yes"]);
    expect(settled.out).toContain("1 doubt: unknown → pending");
    expect((await cli.run(["ls", "--doubt", "--group", "--json"])).json.groups).toHaveLength(1);
  });

  it("so it is with sealed inputs, and with the steps of a sequence", async () => {
    const doubt = { state: "unknown", error: { name: "Error", message: "socket hang up" }, attempt: 1 } as const;
    const marked = (step: string) => ({ fingerprint: { guarded: step, free: null, fields: { step } } });
    for (const [n, step] of [
      ["1", "charge"],
      ["2", "mail"],
    ] as const) {
      await cli.put({
        ...doubt,
        ...marked(step),
        key: keyLike(`a${n}`),
        action: "step:x",
        input: { sealed: "ntseal1.x" },
      });
      const input = { json: JSON.stringify({ step, subject: "ada" }) };
      await cli.put({ ...doubt, key: keyLike(`b${n}`), action: "sequence:drip", input });
    }
    const { json } = await cli.run(["ls", "--doubt", "--group", "--json"]);
    expect(json.groups).toHaveLength(4);
  });
});

describe("a run that a step holds", () => {
  it.each([["resolve", "--not-done"], ["resolve", "--done"], ["retry"]])(
    "%s %s: says which step is to be settled, and changes nothing",
    async (command, ...flags) => {
      const key = await order("a", "charge");
      const { code, err } = await cli.run([command, key, ...flags, ...reason], wide);
      expect(code).toBe(1);
      expect(err).toContain("the run waits for a decision on step charge. Nothing was changed.");
      expect(err).toMatch(/nevertwice resolve nt1_\w{10} --done --result '…' --reason '…'/);
      expect((await cli.run(["show", key, "--json"])).json.record.state).toBe("failed");
    },
  );

  it("retry --all-failed leaves it, and says why; runs prints the command for each held run", async () => {
    await order("a", "charge");
    await order("b", "mail");
    const { code, err } = await cli.run(["retry", "--all-failed", ...reason], wide);
    expect([code, err.match(/waits for a decision on step/g)?.length]).toEqual([1, 2]);
    expect((await cli.run(["runs"], wide)).out.match(/nevertwice resolve nt1_\w{10} --done/g)).toHaveLength(2);
  });

  it("its history does not say that nothing was sent", async () => {
    const out = await shown(await order("a", "charge"));
    expect(out).toContain(" failed claimed → failed");
    expect(out).not.toContain("not-sent");
  });
});

it("a run that failed between its steps: what its steps did has happened", async () => {
  const out = await shown(await order("a", "none"));
  expect(out).not.toContain("it did not happen");
  expect(out).toMatch(
    /failed, after 1 try: it has not ended, and steps that are confirmed have happened; the next call/,
  );
});

it("a doubt that is held for a time only is shown with it", async () => {
  const key = keyLike("held");
  const since = Date.now() - 180_000;
  const terms = { untilDelivered: true };
  const times = { doubtSince: since, updatedAt: since, keepMs: 900_000 };
  await cli.put({ key, action: "mail/send", state: "unknown", why: "the client gave up", attempt: 1, terms, ...times });
  expect(await shown(key)).toContain(
    "Identical calls are refused; in 12 minutes the next one is made, unless somebody decides before",
  );
  expect((await cli.run(["ls"], wide)).out).toContain("held 12m more: the client gave up");
});
