// The effect of every agent here: a mail. `crash` kills the process right after it was sent, as a host may.
export async function deliver({ url, crash }, mail) {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(mail), headers: { connection: "close" } });
  if (crash) process.kill(process.pid, "SIGKILL");
  return response.json();
}

/** What each guarded agent declares: who gets it decides, the text may be reworded. */
export const mailOptions = { key: ["to"], free: ["body"], lease: "1s", timeout: "900ms", wait: "3s" };

export const fresh = () => `call_${Math.random().toString(36).slice(2)}`;
