/** A missing argument is refused with what is missing, not with a TypeError of the code that reads it. */
import { nevertwice } from "nevertwice";
import { statusTool } from "nevertwice/agents";
import { memoryStore } from "nevertwice/memory";
import { expect, it, onTestFinished } from "vitest";

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => 1 });
  return { nt, send };
}

const MISSING = undefined as never;
const refused = { code: "INVALID_INPUT", message: expect.stringMatching(/by is missing/) };

it.each([MISSING, null as never])("retryAll, retry, resolve and resend without a signature: %s", async (signature) => {
  const { nt, send } = open();
  await send({ id: 1 });
  const key = await send.keyOf({ id: 1 });
  await expect(nt.retryAll({}, signature)).rejects.toMatchObject(refused);
  await expect(nt.retry({ key }, signature)).rejects.toMatchObject(refused);
  await expect(nt.resolve({ key }, signature)).rejects.toMatchObject(refused);
  await expect(send.resolve({ id: 1 }, signature)).rejects.toMatchObject(refused);
  await expect(send.resend({ id: 1 }, signature)).rejects.toMatchObject(refused);
});

it.each([MISSING, null as never])("the status tool asked with %s says that it is no reference", async (input) => {
  expect(await statusTool(open().nt).execute(input)).toMatch(/no reference/);
});
