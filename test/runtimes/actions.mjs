import { appendFileSync } from "node:fs";
import { nevertwice } from "nevertwice";

export const nt = nevertwice({ sweep: false });

export const mail = nt.action("mail", {
  key: ["to"],
  run: ({ to }) => {
    appendFileSync("effects", `${to}\n`);
    return { to };
  },
});

export const charge = nt.action("charge", {
  key: ["order"],
  run: () => {
    throw new Error("the connection broke after the request was sent");
  },
});
