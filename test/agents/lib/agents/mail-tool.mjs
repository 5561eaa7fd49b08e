// The effect of every agent here: a mail. `crash` kills the process right after it was sent, as a host may; `record` takes
// the mail instead, for somebody else to send. A mail without a text, or with an amount below zero, is refused before anything is
// sent: by a plain error, or as `fails` says.
import { notSent, refused } from "../../../../dist/index.js";

const negative = () => new Error("the amount is negative");

export async function deliver({ url, crash, record, fails }, mail) {
  if (record) return record(mail);
  if (mail.body === "") throw new Error("the body is empty");
  if (fails?.busy?.shift()) throw notSent(new Error("too many mails"), { retryAfter: "30s" });
  if (mail.amount < 0) throw fails?.refused ? refused(negative()) : negative();
  const response = await fetch(url, { method: "POST", body: JSON.stringify(mail), headers: { connection: "close" } });
  if (crash) process.kill(process.pid, "SIGKILL");
  return response.json();
}

/**
 * What each guarded agent declares: who gets it decides, the text may be reworded. A dead process is noticed soon; a
 * living one is waited for, however slow the machine.
 */
export const mailOptions = ({ soon, errors, checks, mode, repeats }) => ({
  ...(mode && { mode }),
  ...(repeats && { repeats }),
  ...(errors && { errors }),
  ...(checks && {
    check: ({ amount }) => {
      if (amount < 0) throw negative();
    },
  }),
  key: ["to"],
  free: ["body"],
  wait: "40s",
  ...(soon && { lease: "3s", timeout: "2500ms" }),
});

export const fresh = () => `call_${Math.random().toString(36).slice(2)}`;
