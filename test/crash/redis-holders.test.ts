/** F15–F19, F26 on Redis: leases are judged by the server's clock, whatever the hosts' say. */
import { flushableRedisDb, freshPrefix } from "../services/addresses.ts";
import { describeHolders } from "./lib/holders.ts";

const url = await flushableRedisDb();

describeHolders("redis", () => `${url}?prefix=${freshPrefix().slice(0, -1)}`);
