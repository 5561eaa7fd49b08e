/**
 * A real SMTP server in a process of its own, on loopback only. What it has stored counts as accepted: that is when a
 * server takes over a mail, whether or not its reply arrives. A tiny HTTP port answers questions about the mailbox.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";
import { leaveWithTheStory, settings } from "./processes.mjs";

const { mailbox } = settings();
const mails = [];
/** Recipient → what happens to the reply to the next mail: "cut" or "stall". */
const faults = new Map();
const sockets = new Map();

const smtp = new SMTPServer({
  disabledCommands: ["AUTH", "STARTTLS"],
  disableReverseLookup: true,
  onData: receive,
});
// The story cuts lines on purpose; a broken connection must not end the server.
smtp.on("error", () => {});
smtp.server.on("connection", (socket) => sockets.set(socket.remotePort, socket));

async function receive(stream, session, reply) {
  const mail = store(await text(stream), session.envelope.rcptTo[0].address);
  const fault = faults.get(mail.to);
  faults.delete(mail.to);
  // Told before it is answered, so that the story prints events in the order they happened.
  await tell({ type: "accepted", mail, fault, count: mails.filter(({ to }) => to === mail.to).length });
  if (fault === "cut") sockets.get(session.remotePort)?.destroy();
  else if (fault !== "stall") reply(null);
}

function store(raw, to) {
  const headers = raw.slice(0, raw.indexOf("\r\n\r\n")).replace(/\r\n[ \t]+/g, " ");
  const header = (name) => new RegExp(`^${name}: *(.*)$`, "im").exec(headers)?.[1].trim() ?? null;
  const mail = { to, key: header("X-Idempotency-Key"), messageId: header("Message-ID") };
  writeFileSync(join(mailbox, `${String(mails.length + 1).padStart(2, "0")}-${to}.eml`), raw);
  mails.push(mail);
  return mail;
}

const untold = new Map();
let told = 0;
process.on("message", ({ id }) => untold.get(id)?.());

function tell(message) {
  told += 1;
  const id = told;
  return new Promise((resolve) => {
    untold.set(id, resolve);
    process.send({ ...message, id });
  });
}

const query = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  if (pathname === "/fault") faults.set(searchParams.get("to"), searchParams.get("reply"));
  const key = searchParams.get("key");
  response.end(JSON.stringify(key === null ? mails : mails.filter((mail) => mail.key === key)));
});

const listening = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

leaveWithTheStory();
mkdirSync(mailbox, { recursive: true });
await Promise.all([listening(smtp), listening(query)]);
process.send({ type: "ready", smtpPort: smtp.server.address().port, queryPort: query.address().port });
