// One function, wrapped; called three times in other words; the effect happens once.
import { day, nevertwice } from "nevertwice";

const nt = nevertwice({ store: "memory:" });
const sendFollowup = nt.action("send_followup", {
  key: (lead) => [lead.id, day(lead.due)], // what makes two calls the same intent
  free: ["body"], // what a model may reword
  run: async (lead) => deliver(lead),
});
const lead = { id: "lead_8821", due: "2026-01-15T09:00:00Z" };
for (const body of ["Shall we talk?", "Do you have a minute?", "Any news?"])
  console.log(await sendFollowup({ ...lead, body }));
await nt.close();

// Stands for your mail provider.
function deliver({ id, body }) {
  console.log(`sending: ${body}`);
  return `mail for ${id}`;
}

// Prints:
//   sending: Shall we talk?
//   mail for lead_8821
//   mail for lead_8821
//   mail for lead_8821
//
// In memory, so that this file prints the same each time. Without `store` the ledger is a file (.nevertwice/ledger.db):
// then a second run of the program sends nothing either.
