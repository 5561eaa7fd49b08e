// What a careful user writes by hand: claim by SET NX PX, run, SET the result. No owner, no fence, no doubt.
import { createHash } from "node:crypto";
import { Redis } from "ioredis";

const LEASE_MS = 60_000;
const KEEP_MS = 86_400_000;

export function handWrittenRedis(url, effect) {
  const client = new Redis(url);
  return {
    async once(id) {
      const key = `hand:${createHash("sha256").update(id).digest("base64url")}`;
      const claimed = await client.set(key, '{"state":"claimed"}', "PX", LEASE_MS, "NX");
      if (claimed === null) return JSON.parse(await client.get(key)).result;
      const result = await effect();
      await client.set(key, JSON.stringify({ state: "done", result }), "PX", KEEP_MS);
      return result;
    },
    close: () => client.disconnect(),
  };
}
