// The step's effect as an action, or bare.
import { nevertwice } from "../../../../dist/index.js";

export function world([url, store, how]) {
  const deliver = async (mail) => {
    const response = await fetch(url, { method: "POST", body: JSON.stringify(mail), headers: { connection: "close" } });
    if (how === "crash") process.kill(process.pid, "SIGKILL");
    return (await response.json()).id;
  };
  if (store === "bare") return { deliver, action: null, how };
  const nt = nevertwice({ store, sweep: false });
  const quick = { lease: "3s", timeout: "2500ms", wait: "20s" };
  return { deliver, how, action: nt.action("send_mail", { key: ["to"], ...quick, run: (mail) => deliver(mail) }) };
}

export const mail = { to: "ada", body: "Hello" };
