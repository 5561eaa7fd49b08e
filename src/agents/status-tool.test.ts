import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { statusTool } from "./status-tool.ts";

eachStore("the status tool", (open) => {
  it("does not call in progress what a dead worker had claimed and not sent", async () => {
    const { nt, store, clock } = open();
    const send = nt.action("mail", { key: ["id"], run: async (_: { id: number }) => null });
    const { key } = await send.enqueue({ id: 1 });
    const status = statusTool(nt);
    await store.lease({ holder: "dead", limit: 1, leaseMs: 60_000, to: "claimed" });
    expect(await status.execute({ reference: key })).toMatch(/^In progress since/);
    clock.advance(61_000);
    expect(await status.execute({ reference: key })).toMatch(/^Scheduled, for .* Do not repeat it\.$/);
  });

  it("says that a call may be repeated whose holder died before anything was sent", async () => {
    const { nt, another, clock } = open();
    const never = gate();
    const options = { key: ["id"], lease: "60s", run: async (_: { id: number }) => null } as const;
    const stuck = nt.action("mail", { ...options, prepare: () => never.opened });
    const first = stuck.attempt({ id: 1 });
    const other = another();
    const send = other.action("mail", { ...options, prepare: async () => {} });
    const status = statusTool(other);
    await until(async () => (await send.status({ id: 1 })).status === "in_flight");
    const { key } = await send.status({ id: 1 });
    clock.advance(61_000);
    const told = await status.execute({ reference: key });
    expect(told).toMatch(
      /^It did not happen: its holder stopped answering before anything was sent.*may be called again/,
    );
    never.open();
    await first;
  });
});
