/** An error must not hide what an inner nevertwice error says: that is where the remedy is. */
import { nevertwice, rejected } from "nevertwice";
import { expect, it, onTestFinished } from "vitest";

function open() {
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

const unsettled = () => {
  throw new Error("who knows");
};

it("an action inside an action: the doubt of the inner one is named with its key, also through an error around it", async () => {
  const nt = open();
  const inner = nt.action("pay", { key: ["id"], run: unsettled as (input: { id: number }) => never });
  const outer = nt.action("order", {
    key: ["id"],
    run: async (input: { id: number }) => {
      try {
        return await inner(input);
      } catch (cause) {
        throw new Error("the order broke off", { cause });
      }
    },
  });
  const { key } = await inner.status({ id: 1 });
  const error = (await outer({ id: 1 }).catch((caught: unknown) => caught)) as Error;
  expect(error.message).toContain(`Inside: pay (${key}): attempt 1 may or may not have happened`);
});

it("a failure that is remembered: what the inner error said", async () => {
  const nt = open();
  const order = nt.action("order", {
    key: ["id"],
    run: async ({ id }: { id: number }) => {
      const error = (await nt.run(" ", id, () => 1).catch((caught: unknown) => caught)) as Error;
      throw rejected(error);
    },
  });
  await expect(order({ id: 1 })).rejects.toThrow(/a run's name must be a text/);
  await expect(order({ id: 1 })).rejects.toThrow(
    /refused for good.*Inside: run\(" ", …\): a run's name must be a text/,
  );
});
