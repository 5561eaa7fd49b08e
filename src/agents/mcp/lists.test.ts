/** Whose list of tools decides: what the server declares to one caller, or declared before, lets no other call pass. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { McpGuard } from "./guard.ts";

type Event =
  | { readonly kind: "asks" | "hears"; readonly who: string; readonly readOnly: boolean }
  | { readonly kind: "changed" };

const who = fc.constantFrom("ada", "bob");
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ kind: fc.constantFrom("asks" as const, "hears" as const), who, readOnly: fc.boolean() }),
  fc.record({ kind: fc.constant("changed" as const) }),
);

it("in every order of lists, answers and changes, a tool passes only by the latest list of this very caller since the last change", async () => {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      const guard = new McpGuard({ nt, config: {}, server: "mail", identity: "mail" });
      const asked: { readonly who: string; readonly since: number; readonly at: number }[] = [];
      const [passes, listed] = [new Map<string, boolean>(), new Set<string>()];
      let changes = 0;
      for (const one of events) {
        if (one.kind === "changed") {
          guard.forget();
          changes += 1;
          passes.clear();
          listed.clear();
        } else if (one.kind === "asks") asked.push({ who: one.who, since: guard.epoch, at: changes });
        else {
          const question = asked.shift();
          if (question === undefined) continue;
          guard.learn(
            [{ name: "act", annotations: { readOnlyHint: one.readOnly } }],
            true,
            question.who,
            question.since,
          );
          if (question.at === changes) passes.set(question.who, one.readOnly);
          if (question.at === changes) listed.add(question.who);
        }
        for (const caller of ["ada", "bob"]) {
          expect(guard.guarded("act", caller)).toBe(passes.get(caller) !== true);
          expect(guard.needsList("act", caller)).toBe(!listed.has(caller));
        }
      }
    }),
    { numRuns: 500 },
  );
  await nt.close();
});
