/** A host with one call on an S3 ledger; its wall clock is set by faketime. Writes what it did as one line of JSON. */
import { nevertwice } from "nevertwice";

const { store, endpoint, key } = JSON.parse(process.argv[2]);
process.env.AWS_ENDPOINT_URL_S3 = endpoint;
const nt = nevertwice({ store, sweep: false });
let effects = 0;
const send = nt.action("send", {
  key: ["to"],
  wait: "20s",
  run: async () => {
    effects += 1;
    return { sentAt: nt.store.now() };
  },
});
const outcome = await send.attempt({ to: key });
console.log(
  JSON.stringify({ effects, wall: Date.now(), now: nt.store.now(), status: outcome.status, error: outcome.error }),
);
await nt.close();
