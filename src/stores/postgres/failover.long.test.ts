/** F31: a streaming standby is promoted. What an asynchronous one may lose is documented; a synchronous one loses nothing. */
import { type Nevertwice, nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import { expect, it, onTestFinished } from "vitest";
import { ownPostgres, ownStandby, proxyTo } from "../../../test/services/on-demand.ts";
import { gate, until } from "../../../test/support/gate.ts";
import { startProvider } from "../../../test/support/provider.ts";

function program(url: string): Nevertwice {
  const store = postgresStore({ url, listen: false, timeout: "3s" });
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

type Order = { id: number };

async function pair(synchronous: boolean) {
  const primary = await ownPostgres();
  const stream = await proxyTo(primary);
  const standby = await ownStandby(primary, { port: stream.port, synchronous });
  return { primary, stream, standby };
}

it("F31: asynchronous: an acknowledged claim can be missing afterwards; a provider with keys still has one effect", async () => {
  const { primary, stream, standby } = await pair(false);
  const provider = await startProvider();
  const before = program(primary.url);
  const options = { key: ["id"], doubt: { resendWithin: "24h" } } as const;
  const sent = gate();
  const failedOver = gate();
  const send = before.action("send", {
    ...options,
    run: async (order: Order, { key }) => {
      const answer = await provider.send(order, key);
      if (order.id !== 2) return answer;
      sent.open();
      await failedOver.opened;
      return answer;
    },
  });
  await send({ id: 1 });
  const seen = async () => (await standby.query("SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS up", [lsn]))[0]?.up;
  const lsn = (await primary.query("SELECT pg_current_wal_lsn() AS at"))[0]?.at;
  await until(seen, "the first record on the standby");
  stream.set("blackhole");
  const second = send({ id: 2 }).catch(() => "the ledger is gone");
  await sent.opened;
  await primary.stop("kill");
  await standby.promote();

  const after = program(standby.url);
  const again = after.action("send", { ...options, run: (order: Order, { key }) => provider.send(order, key) });
  expect(await again.attempt({ id: 1 }), "what had arrived is kept").toMatchObject({ status: "done", replayed: true });
  expect(await again.status({ id: 2 }), "the documented loss").toMatchObject({ status: "absent" });
  expect(await again({ id: 2 })).toEqual({ id: "msg_2" });
  failedOver.open();
  await second;
  expect(provider.requests).toHaveLength(3);
  expect(provider.effects).toHaveLength(2);
});

it("F31: synchronous: nothing acknowledged is lost, under load, and nothing unacknowledged was sent", async () => {
  const { primary, stream, standby } = await pair(true);
  const before = program(primary.url);
  const effects = new Map<number, number>();
  const run = async ({ id }: Order) => {
    effects.set(id, (effects.get(id) ?? 0) + 1);
    return id;
  };
  const send = before.action("send", { key: ["id"], wait: 0, run });
  const acknowledged = new Set<number>();
  // Done, but the ledger could not be told any more: nobody acknowledged that. It stays on record as sent.
  const untold = new Set<string>();
  before.on((event) => event.type === "confirm_delayed" && untold.add(event.key));
  let stop = false;
  const caller = async (first: number) => {
    for (let id = first; !stop; id += 8) {
      const outcome = await send.attempt({ id }).catch(() => null);
      if (outcome?.status === "done" && !untold.has(outcome.key)) acknowledged.add(id);
    }
  };
  const callers = Array.from({ length: 8 }, (_, i) => caller(i));
  await until(() => acknowledged.size > 200, "some work");
  // Cut off first: from here on no commit is acknowledged, so no claim and no effect.
  stream.set("blackhole");
  await new Promise((done) => setTimeout(done, 300));
  await primary.stop("kill");
  stop = true;
  await Promise.all(callers);
  await standby.promote();

  const after = program(standby.url).action("send", { key: ["id"], wait: 0, run });
  for (const id of acknowledged) {
    expect(await after.attempt({ id })).toMatchObject({ status: "done", replayed: true, result: id });
  }
  // Every effect has a record that says at least that it was sent: none runs a second time.
  for (const id of effects.keys()) expect((await after.status({ id })).status).not.toBe("absent");
  expect([...effects.values()].every((times) => times === 1)).toBe(true);
});

it("a standby is no ledger: refused at once, with the remedy", async () => {
  const { primary, standby } = await pair(false);
  await program(primary.url).once("made", [1], () => 1);
  const lsn = (await primary.query("SELECT pg_current_wal_lsn() AS at"))[0]?.at;
  const seen = async () => (await standby.query("SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS up", [lsn]))[0]?.up;
  await until(seen, "the ledger on the standby");
  let runs = 0;
  await expect(program(standby.url).once("call", [1], () => ++runs)).rejects.toMatchObject({
    code: expect.stringMatching(/CONFIG|STORE_UNAVAILABLE/),
    message: expect.stringContaining("Connect to the primary"),
  });
  expect(runs).toBe(0);
});
