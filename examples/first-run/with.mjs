/** The same effect, wrapped once. No list of our own: the ledger is written before the mail leaves. */
import { day, nevertwice } from "nevertwice";
import { mailsWith, sendMail } from "./mail.mjs";

export function openLedger(place, tell) {
  // No background sweep: the story shows who settles a doubt, so nobody else may be quicker.
  const nt = nevertwice({ store: `sqlite:${place.ledger}`, sweep: false });
  nt.on((event) => {
    if (event.type === "unknown") tell("ledger", `unknown: ${event.why}`, "yellow");
    if (event.type === "settled") tell("ledger", `settled as ${event.as}, by ${event.how}`, "green");
  });
  const followUp = {
    key: (lead) => [lead.id, lead.template, day(lead.due)],
    free: ["body"],
    run: (lead, ctx) => sendMail(place, lead, ctx.key),
  };
  const actions = {
    // SMTP honours no idempotency key, so the default holds a doubt until somebody has looked.
    send_followup: nt.action("send_followup", followUp),
    // This one may look for itself. Short times, because the story does not want to wait a minute for a dead holder.
    send_followup_nightly: nt.action("send_followup_nightly", {
      ...followUp,
      lease: "2s",
      doubt: { probe: (_lead, { key }) => lookIntoMailbox(place, key, tell), quietFor: "300ms" },
    }),
  };
  return { nt, actions };
}

async function lookIntoMailbox(place, key, tell) {
  const [mail] = await mailsWith(place, key);
  tell("probe", mail ? `found the mail with this key: ${mail.messageId}` : "no mail with this key has arrived");
  return mail ? { as: "done", result: mail.messageId } : "not-done";
}

export function withNevertwice({ nt, actions }, name = "send_followup") {
  return {
    pending: (leads) => leads,
    async send(lead) {
      const outcome = await actions[name].attempt(lead);
      if (outcome.status !== "done") throw new Error(`${outcome.status} (${outcome.why ?? "see the ledger"})`);
      if (!outcome.replayed) return "sent";
      const reworded = outcome.differs ? `; differs: ${outcome.differs.join(", ")}` : "";
      return `done before, nothing sent${reworded}`;
    },
    close: () => nt.close(),
  };
}
