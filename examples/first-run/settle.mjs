/** What people do afterwards: look, settle what was held in doubt, and send once more on purpose. */
import { ada, mary } from "./leads.mjs";
import { mailsWith } from "./mail.mjs";
import { say } from "./print.mjs";

export async function settleByLooking({ place, ledger, sender }) {
  const { send_followup } = ledger.actions;
  const held = await send_followup.status(ada);
  say("ledger", `${ada.to} is ${held.status} (attempt ${held.attempt}: ${held.why})`, "yellow");
  const found = await mailsWith(place, held.key);
  const ids = found.map(({ messageId }) => messageId).join(", ");
  say("kim", `looks for mails with the key ${held.key.slice(0, 12)}… and finds ${found.length}: ${ids}`);
  // Only what was found may be called done; "not-done" would let the next call send it.
  const verdict = found.length > 0 ? { as: "done", result: found[0].messageId } : { as: "not-done" };
  await send_followup.resolve(
    { key: held.key },
    { ...verdict, by: "kim", reason: "looked for the key in the mailbox" },
  );
  say("framework", `calls once more: ${await sender.send(ada)}`);
  return held;
}

export async function resendOnPurpose({ ledger }) {
  const { send_followup } = ledger.actions;
  const reason = "she deleted the first one";
  say("kim", `sends it to ${mary.to} again: ${reason}`);
  await send_followup.resend(mary, { by: "kim", reason });
  const again = await send_followup.status(mary, { version: 2 });
  say("ledger", `${mary.to}, version 2: ${again.status}`, "green");
}
