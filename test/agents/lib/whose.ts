/**
 * Two users with two sessions each, who make the same calls with the same arguments and the same call ids, on one ledger. What
 * tells them apart is up to what is tested: the session, the user, a token, an environment.
 */
import { expect } from "vitest";
import type { MailProvider } from "./mail-provider.ts";

export interface Party {
  readonly user: string;
  readonly session: string;
}

/** One request of a party, in which send_mail is called `times` times; what the model was told each time. */
export type Ask = (party: Party, times: number) => Promise<string[]>;

export const MAIL = { to: "ada", body: "Hello" };

export const PARTIES: readonly Party[] = ["ada", "bob"].flatMap((user) =>
  [1, 2].map((number) => ({ user, session: `${user}-session-${number}` })),
);

export const bySession = ({ session }: Party): string => session;
export const byUser = ({ user }: Party): string => user;

const mailIn = (told: string) => /mail_\d+/.exec(told)?.[0];

/** `whose`: parties of the same name are one caller, which gets its own answer again; all others never see it. */
export async function noAnswerGoesAstray(
  ask: Ask,
  { mails }: MailProvider,
  whose: (party: Party) => string = bySession,
): Promise<void> {
  const callers = [...new Map(PARTIES.toReversed().map((party) => [whose(party), party])).entries()];
  const first = await Promise.all(callers.map(([, party]) => ask(party, 2)));
  const own = new Map(callers.map(([name], i) => [name, mailIn(first[i]?.[0] ?? "")]));
  expect([...own.values()].toSorted()).toEqual(callers.map((_, i) => `mail_${i + 1}`));
  for (const [i, told] of first.entries()) {
    const mine = own.get(callers[i]?.[0] as string);
    expect(told.map((text) => [mailIn(text), text.includes("Already done")])).toEqual([
      [mine, false],
      [mine, true],
    ]);
  }
  for (const party of PARTIES) {
    const told = (await ask(party, 1)).at(-1) as string;
    expect([mailIn(told), told.includes("Already done")]).toEqual([own.get(whose(party)), true]);
  }
  expect(mails).toHaveLength(callers.length);
}
