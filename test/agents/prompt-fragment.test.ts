/** A5: a model that does what its system prompt says, through real SDKs: with the fragment it looks, and repeats nothing. */
import { describe, expect, it, onTestFinished } from "vitest";
import { guardTool, promptFragment, STATUS_TOOL } from "../../dist/agents/index.js";
import { type Nevertwice, nevertwice, rejected } from "../../dist/index.js";
import { FRAMEWORKS } from "./lib/agents/prompted.mjs";
import { type MailProvider, sendMail, startMailProvider } from "./lib/mail-provider.ts";
import { type Mail, NUDGE, PromptedModel } from "./lib/prompted-model.ts";

const FRAGMENT = `You mail people.\n\n${promptFragment({ tools: ["send_mail"], statusTool: true })}`;
const MAIL: Mail = { to: "ada", body: "Hello", amount: 5 };

interface Played {
  readonly system?: string;
  readonly options?: object;
  readonly execute?: (mail: Mail) => Promise<unknown>;
}

async function stage() {
  const provider = await startMailProvider();
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return { provider, nt };
}

type Framework = (given: object) => Promise<void>;

async function play(framework: Framework, nt: Nevertwice, provider: MailProvider, played: Played) {
  const model = new PromptedModel(MAIL);
  const { system = FRAGMENT, options = {}, execute = (mail: Mail) => sendMail(provider.url, mail) } = played;
  const own = { wait: 0, statusTool: STATUS_TOOL, ...options };
  const { statusTool, ...tool } = own;
  await framework({ nt, execute, options: tool, statusTool, system, model, thread: "thread-1" });
  const calls = (name: string) => model.moves.filter(({ tool: called }) => called === name).length;
  return { mails: calls("send_mail"), looks: calls(STATUS_TOOL), said: model.said };
}

describe.each(Object.entries(FRAMEWORKS) as [string, Framework][])("A5: %s", (_, framework) => {
  it("nudged to redo what fails, a model varies the call and the mail goes out again", async () => {
    const { nt, provider } = await stage();
    provider.dropNext();
    await play(framework, nt, provider, { system: NUDGE });
    expect(provider.mails.length).toBeGreaterThan(1);
  });

  it("with the fragment it looks at the outcome, and leaves it at that", async () => {
    const { nt, provider } = await stage();
    provider.dropNext();
    const { mails, looks, said } = await play(framework, nt, provider, {});
    expect({ mails, looks, sent: provider.mails.length }).toEqual({ mails: 1, looks: 1, sent: 1 });
    expect(said).toMatch(/nobody knows yet whether it happened/);
  });

  it("what was done before it takes as done", async () => {
    const { nt, provider } = await stage();
    await play(framework, nt, provider, {});
    const { mails, said } = await play(framework, nt, provider, {});
    expect({ mails, sent: provider.mails.length }).toEqual({ mails: 1, sent: 1 });
    expect(said).toMatch(/it was done by an earlier call/);
  });

  it("a conflict it reports, and varies nothing", async () => {
    const { nt, provider } = await stage();
    const options = { key: ["to" as const], free: ["body" as const] };
    const first = guardTool(nt, { ...options, wait: 0, name: "send_mail", scope: "thread-1" }, (mail: Mail) =>
      sendMail(provider.url, mail),
    );
    await first({ ...MAIL, amount: 4 }, undefined);
    const { mails, said } = await play(framework, nt, provider, { options });
    expect({ mails, sent: provider.mails.length }).toEqual({ mails: 1, sent: 1 });
    expect(said).toMatch(/an earlier call for the same thing had other values/);
  });

  it("what is still at work it leaves alone", async () => {
    const { nt, provider } = await stage();
    provider.hold();
    const execute = (mail: Mail) => sendMail(provider.url, mail);
    const first = guardTool(nt, { wait: 0, name: "send_mail", scope: "thread-1" }, execute)(MAIL, undefined);
    await provider.sent(1);
    // Another process has it: in this one, a call would wait for the first.
    const other = nevertwice({ store: nt.store, sweep: false, onWarning: () => {} });
    const { mails, said } = await play(framework, other, provider, {});
    expect({ mails, sent: provider.mails.length }).toEqual({ mails: 1, sent: 1 });
    expect(said).toMatch(/still at work on it/);
    provider.release();
    await first;
  });

  it("what was refused for good it does not call again", async () => {
    const { nt, provider } = await stage();
    const execute = async () => {
      throw rejected(new Error("no such address"));
    };
    const first = guardTool(nt, { wait: 0, name: "send_mail", scope: "thread-1" }, execute);
    await expect(first(MAIL, undefined)).rejects.toThrow();
    const { mails, said } = await play(framework, nt, provider, { execute });
    expect({ mails, sent: provider.mails.length }).toEqual({ mails: 1, sent: 0 });
    expect(said).toMatch(/it did not happen, and with these values it will not/);
  });
});
