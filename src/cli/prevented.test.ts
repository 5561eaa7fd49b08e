/** prevented: what a person sees of the duplicates that were not run. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

async function sendTwice(tenant?: string): Promise<string> {
  const nt = ledger.program(tenant === undefined ? {} : { tenant });
  const send = nt.action("send_mail", { key: ["to"], run: async (_mail: { to: string }) => 1 });
  await send({ to: "ada" });
  await send({ to: "ada" });
  await nt.sweep();
  return send.keyOf({ to: "ada" });
}

it("lists action, cause, count, times and the latest key; as JSON too", async () => {
  const key = await sendTwice();
  const { out, code } = await ledger.run(["prevented", "--since", "7d"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^1 duplicate prevented\n\naction +cause +prevented +first +last +latest key\n/);
  expect(out).toMatch(new RegExp(`send_mail +already done +1 .*${key.slice(0, 14)}`));
  const { json } = await ledger.run(["prevented", "--json"]);
  expect(json).toMatchObject({
    since: null,
    prevented: 1,
    observed: 0,
    entries: [{ tenant: "", action: "send_mail", cause: "done", prevented: 1, key, last: expect.any(Number) }],
  });
});

it("stats has the sum", async () => {
  await sendTwice();
  expect((await ledger.run(["stats"])).out).toContain("prevented       1 duplicate: nevertwice prevented");
});

it("keeps to the tenant that is asked for", async () => {
  await sendTwice("acme");
  await sendTwice("globex");
  expect((await ledger.run(["prevented", "--json"])).json.prevented).toBe(2);
  expect((await ledger.run(["prevented", "--tenant", "acme", "--json"])).json.entries).toMatchObject([
    { tenant: "acme", prevented: 1 },
  ]);
});

it("says so where there is nothing, and refuses a time that cannot be read", async () => {
  expect((await ledger.run(["prevented"])).out).toContain("Nothing was prevented");
  await ledger.program().sweep();
  expect((await ledger.run(["prevented"])).out).toBe("0 duplicates prevented\n");
  expect(await ledger.run(["prevented", "--since", "yesterday"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--since yesterday: it takes a duration back"),
  });
  expect((await ledger.run(["prevented", "--since", "2026-10-02T09:00:00Z"])).code).toBe(0);
});
