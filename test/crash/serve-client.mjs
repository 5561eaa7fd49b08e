/**
 * A client in another language would look like this: plain HTTP, no nevertwice. It claims each intent, has the effect (a line
 * in a file), and settles. An answer that does not come is asked for again; it may be killed at any point.
 */
import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [, , url, token, effects, from, to] = process.argv;

async function ask(name, body) {
  for (;;) {
    try {
      const answer = await fetch(`${url}/v1/${name}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      if (answer.status < 500) return await answer.json();
    } catch {
      // The service was killed: it comes back.
    }
    await sleep(20);
  }
}

for (let intent = Number(from); intent < Number(to); intent += 1) {
  const claimed = await ask("claim", { action: "send", parts: [intent], lease: "1s", request: randomUUID() });
  if (claimed.status !== "claimed") continue;
  appendFileSync(effects, `${intent} ${claimed.fence}\n`);
  await ask("settle", { token: claimed.token, as: "done", result: `m-${intent}` });
}
