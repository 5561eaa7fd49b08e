/** The module that `nevertwice each` loads in the test: a mail to each recipient, over real SMTP. */
import { nevertwice } from "nevertwice";
import { createTransport } from "nodemailer";

const { MAIL_STORE, MAIL_SMTP_PORT, MAIL_QUERY_PORT } = process.env;
const nt = nevertwice({ store: MAIL_STORE, sweep: false });
const transport = createTransport({
  host: "127.0.0.1",
  port: Number(MAIL_SMTP_PORT),
  ignoreTLS: true,
  pool: true,
  maxConnections: 20,
  maxMessages: Number.POSITIVE_INFINITY,
});

export const sendNewsletter = nt.action("send_newsletter", {
  key: ["to", "issue"],
  lease: "2s",
  wait: "30s",
  retry: { attempts: 20, backoff: "50ms", max: "500ms" },
  doubt: { probe, quietFor: "200ms" },
  run: async ({ to }, { key }) => {
    const mail = { from: "news@example.com", to, subject: "News", text: "…", headers: { "X-Idempotency-Key": key } };
    return (await transport.sendMail(mail)).messageId;
  },
});

/** SMTP honours no keys, but this mailbox can be asked. */
async function probe(_input, { key }) {
  const answer = await fetch(`http://127.0.0.1:${MAIL_QUERY_PORT}/?key=${key}`);
  return (await answer.text()) === "0" ? "not-done" : { as: "done" };
}
