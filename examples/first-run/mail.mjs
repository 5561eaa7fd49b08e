/** The two things a program can do with the mail server: send a mail, and ask what has arrived. */
import { createTransport } from "nodemailer";

/** The effect. It knows nothing of nevertwice; the key, where there is one, travels in a header so that it can be found. */
export async function sendMail({ smtpPort }, lead, key) {
  const transport = createTransport({ host: "127.0.0.1", port: smtpPort, ignoreTLS: true });
  try {
    const sent = await transport.sendMail({
      from: "agent@example.com",
      to: lead.to,
      subject: "Following up",
      text: lead.body,
      headers: key === undefined ? {} : { "X-Idempotency-Key": key },
    });
    return sent.messageId;
  } finally {
    transport.close();
  }
}

export async function mailsWith({ queryPort }, key) {
  return (await fetch(`http://127.0.0.1:${queryPort}/mails?key=${key}`)).json();
}

export async function allMails({ queryPort }) {
  return (await fetch(`http://127.0.0.1:${queryPort}/mails`)).json();
}

/** What is to go wrong with the reply to the next mail for this address: "cut" or "stall". */
export async function breakReply({ queryPort }, to, reply) {
  const query = new URLSearchParams({ to, reply });
  await fetch(`http://127.0.0.1:${queryPort}/fault?${query}`);
}
