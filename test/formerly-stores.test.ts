/** K10 on the stores that each-store.ts does not open: processes with the old and the new key race for one intent. */
import { join } from "node:path";
import { email, nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

/** Each call of the connection is another process's store on the same data. */
const STORES: Readonly<Record<string, () => Promise<() => Store>>> = {
  file: async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return () => fileStore({ path });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    return () => postgresStore({ url });
  },
  redis: async () => {
    const [url, prefix] = [await flushableRedisDb(), freshPrefix().slice(0, -1)];
    return () => redisStore({ url, prefix });
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
};

interface Mail {
  readonly lead: string;
  readonly to: string;
}

const OLD = { key: ["to", "lead"] } as const;
const NOW = { key: { lead: true, to: email } } as const;
const NEW = { ...NOW, formerly: { key: ["to", "lead"] } } as const;

it.each(Object.entries(STORES))(
  "K10: %s: old and new processes have one effect, one doubt and one queue, and the change is noticed",
  async (_, open) => {
    const connect = await open();
    const effects = new Map<string, number>();
    const said: string[] = [];
    const process = (options: object) => {
      const onWarning = ({ code }: { code: string }) => void said.push(code);
      const nt = nevertwice({ store: connect(), sweep: "1h", onWarning });
      onTestFinished(() => nt.close());
      const send = nt.action<Mail, string>("send", {
        ...options,
        doubt: { resendWithin: "1h" },
        run: async ({ lead }) => {
          effects.set(lead, (effects.get(lead) ?? 0) + 1);
          return `sent ${lead}`;
        },
      });
      return { nt, send };
    };
    const [before, now, also, later] = [OLD, NEW, NEW, NOW].map(process) as ReturnType<typeof process>[];
    if (!before || !now || !also || !later) throw new Error("four processes");
    const to = "ann@example.com";

    for (const lead of ["a", "b", "c", "d", "e", "f"]) {
      const racers = lead < "d" ? [before, now, also] : [now, later, also];
      const results = await Promise.all(racers.map(({ send }) => send({ lead, to })));
      expect(new Set(results)).toEqual(new Set([`sent ${lead}`]));
      expect(effects.get(lead)).toBe(1);
    }
    await now.send({ lead: "g", to });
    expect(await later.send({ lead: "g", to: "ANN@example.com" })).toBe("sent g");
    expect(await before.send.status({ lead: "g", to })).toMatchObject({ status: "done" });

    await before.send.enqueue({ lead: "q", to });
    expect(await now.send.enqueue({ lead: "q", to })).toMatchObject({ created: false });
    await now.nt.worker().drain();
    expect(effects.get("q")).toBe(1);
    expect(await now.send.resend({ lead: "q", to }, { by: "kim", reason: "asked for" })).toBe("sent q");
    expect(await before.send.status({ lead: "q", to }, { version: 2 })).toMatchObject({ status: "done" });

    expect(said).toEqual([]);
    await now.nt.close();
    const changed = process({ key: ["lead"] });
    await changed.send({ lead: "z", to });
    await changed.nt.close();
    expect(said).toEqual(["KEY_CHANGED"]);
  },
);
