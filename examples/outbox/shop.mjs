// What all examples share: an action that mails a confirmation, and a worker that runs what is queued.
import { nevertwice } from "nevertwice";

const nt = nevertwice({ store: process.env.DATABASE_URL });

export const confirmOrder = nt.action("confirm_order", {
  key: ["orderId"],
  run: async ({ orderId }) => {
    console.log(`mail for order ${orderId}`); // stands for your mail provider
    return `mail-${orderId}`;
  },
});

/** In a program of yours this is `nevertwice worker ./actions.js`, in a process of its own. */
export async function workOff() {
  await nt.worker().drain();
  await nt.close();
}
