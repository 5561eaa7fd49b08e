/** Every key of a ledger on a server behaves like one register, read and swapped in turn. */
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { flushableRedisDb, freshDatabase } from "../services/addresses.ts";
import { describeHistories } from "./describe-histories.ts";

describeHistories({
  postgres: async () => {
    const { url } = await freshDatabase();
    return () => postgresStore({ url, timeout: "60s" });
  },
  "postgres through PgBouncer": async () => {
    const { pgbouncerUrl } = await freshDatabase();
    return () => postgresStore({ url: pgbouncerUrl, timeout: "60s" });
  },
  redis: async () => {
    const url = await flushableRedisDb();
    return () => redisStore({ url, timeoutMs: 60_000 });
  },
});
