// One process of the newsletter: sends an issue to everybody in the list, by each(). The mail's provider honours keys (A) or not (C).
import { email, keepFor, nevertwice } from "nevertwice";

const { store, url, kind, recipients, issue } = JSON.parse(process.argv[2]);
const nt = nevertwice({ store, sweep: false, agent: "newsletter" });
const send = nt.action("newsletter", {
  effect: "mail",
  keep: keepFor.transactional,
  key: { issue: true, to: email },
  free: ["body"],
  // As short as the test is: the dead process is waited for that long.
  lease: "2s",
  wait: "30s",
  ...(kind === "A" && { doubt: { resendWithin: "23h" } }),
  run: async ({ to }, { key }) => {
    const headers = { "content-type": "application/json", "idempotency-key": key, connection: "close" };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ id: to, kind }) });
    if (!response.ok) throw Object.assign(new Error(`answered ${response.status}`), { status: response.status });
    return response.json();
  },
});
const list = Array.from({ length: recipients }, (_, i) => ({
  issue,
  to: `reader-${i}@example.com`,
  body: `Issue ${issue}`,
}));
const { sent, replayed, failed, inDoubt } = await send.each(list, { concurrency: 20 });
console.log(JSON.stringify({ event: "over", sent, replayed, failed, inDoubt }));
await nt.close();
