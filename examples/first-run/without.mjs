/**
 * Not a straw man: this sender keeps a list of whom it mailed and looks into it first, as careful programs do. The list
 * is written after the mail, so whatever comes between the two sends again.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { sendMail } from "./mail.mjs";

export function withoutNevertwice(place) {
  const noted = () => (existsSync(place.notes) ? readFileSync(place.notes, "utf8").split("\n") : []);
  return {
    pending: (leads) => leads.filter((lead) => !noted().includes(lead.id)),
    async send(lead) {
      await sendMail(place, lead);
      appendFileSync(place.notes, `${lead.id}\n`);
      return "sent, and noted";
    },
    close: async () => {},
  };
}
