import { readFileSync } from "node:fs";
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { sqliteStore } from "nevertwice/sqlite";
import { expect, it } from "vitest";
import { eachStore, openMemory, temporaryFolder } from "../../test/support/each-store.ts";

const key = (byte: number) => new Uint8Array(32).fill(byte);
interface Mail {
  to: string;
  body: string;
}
const mail = { to: "ana@example.org", body: "the secret plan" };

eachStore("encrypt", (open) => {
  it("seals input, draft and result, and replays them", async () => {
    const { nt, store, another } = open({ encrypt: key(1) });
    const options = {
      key: ["to"],
      prepare: async (input: Mail) => ({ text: `draft of ${input.body}` }),
      run: async (_mail: Mail, _ctx: unknown, draft: { text: string }) => ({ sent: draft.text }),
    } as const;
    expect(await nt.action("mail", options)(mail)).toEqual({ sent: "draft of the secret plan" });
    const { items } = await store.list({ limit: 10 });
    expect(JSON.stringify(items)).not.toMatch(/secret plan|ana@/);
    expect(await another({ encrypt: key(1) }).action("mail", options)(mail)).toEqual({
      sent: "draft of the secret plan",
    });
  });

  it("rotates: the first key seals, every key opens", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const run = async ({ body }: Mail) => body;
    await nt.action("mail", { key: ["to"], run })(mail);
    const rotated = another({ encrypt: [key(2), key(1)] }).action("mail", { key: ["to"], run });
    expect(await rotated.attempt(mail)).toMatchObject({ replayed: true, result: mail.body });
  });

  it("who has no key is told so and runs nothing", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    let runs = 0;
    const options = { key: ["to"], run: async (_mail: Mail) => ++runs } as const;
    await nt.action("mail", options)(mail);
    const keyless = another().action("mail", options);
    expect(await keyless.attempt(mail)).toMatchObject({
      status: "done",
      resultOmitted: expect.stringMatching(/sealed/),
    });
    await another({ encrypt: key(9) })
      .action("mail", options)
      .attempt(mail)
      .catch((error) => expect(error.code).toBeDefined());
    expect(runs).toBe(1);
  });

  it("F21: a doubt whose bytes are sealed for others is not resent with other bytes", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const sent: string[] = [];
    const options = {
      key: ["to"],
      free: ["body"],
      doubt: { resendWithin: "1h" },
      retry: { attempts: 2, backoff: "1ms" },
      run: async ({ body }: Mail): Promise<void> => {
        sent.push(body);
        throw new Error("reply lost");
      },
    } as const;
    await nt.action("mail", options).attempt(mail, { wait: 0 });
    await another()
      .action("mail", options)
      .attempt({ ...mail, body: "reworded" });
    expect(sent).toEqual([mail.body]);
  });
});

it("nothing of it is in the file", async () => {
  const path = join(temporaryFolder(), "ledger.db");
  const nt = nevertwice({
    store: sqliteStore({ path }),
    encrypt: key(1),
    secret: "sixteen bytes at least",
    sweep: false,
  });
  await nt.action("mail", { key: ["to"], run: async ({ body }: Mail) => body })(mail);
  await nt.close();
  expect(readFileSync(path).toString("latin1")).not.toMatch(/secret plan|ana@/);
});

it("a bad key is refused when nevertwice() is made", () => {
  expect(() => openMemory({ encrypt: "short" })).toThrow(/encrypt/);
  expect(() => openMemory({ encrypt: key(1).slice(1) })).toThrow(/31 bytes/);
});
