/** A mail provider over real HTTP that honours no keys: each POST that arrives is a mail. It may be slow to answer. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface MailProvider {
  readonly url: string;
  /** One entry per mail that was sent. */
  readonly mails: { readonly id: string; readonly to: string; readonly body: string; readonly amount?: number }[];
  /** From now on mails are sent, but answered only after `release`. */
  hold(): void;
  release(): void;
  /** The next mail is sent, and its connection cut instead of an answer. */
  dropNext(): void;
  /** Resolves when this many mails were sent. */
  sent(count: number): Promise<void>;
}

export async function startMailProvider(): Promise<MailProvider> {
  const mails: MailProvider["mails"] = [];
  let held: (() => void)[] | null = null;
  let drops = 0;
  const watchers: { count: number; heard: () => void }[] = [];
  const answer = (response: ServerResponse, body: unknown) => {
    const send = () => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (held === null) send();
    else held.push(send);
  };
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ mails }));
      return;
    }
    let text = "";
    for await (const chunk of request) text += chunk;
    const mail = { id: `mail_${mails.length + 1}`, ...(JSON.parse(text) as { to: string; body: string }) };
    mails.push(mail);
    for (const { count, heard } of watchers) if (mails.length >= count) heard();
    if (drops > 0) {
      drops -= 1;
      request.socket.destroy();
      return;
    }
    answer(response, { id: mail.id });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const release = () => {
    const waiting = held ?? [];
    held = null;
    for (const send of waiting) send();
  };
  onTestFinished(() => {
    release();
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mails,
    hold: () => {
      held ??= [];
    },
    release,
    dropNext: () => {
      drops += 1;
    },
    sent: (count) =>
      new Promise((heard) => {
        if (mails.length >= count) heard();
        else watchers.push({ count, heard });
      }),
  };
}

/** The effect of every tool in these tests. */
export async function sendMail(
  url: string,
  mail: { to: string; body?: string; amount?: number },
): Promise<{ id: string }> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(mail), headers: { connection: "close" } });
  return (await response.json()) as { id: string };
}
