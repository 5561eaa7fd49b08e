/** Which provider's id is kept with a result: by the action's `resultId`, or by the usual names. */
import type { DigestKey } from "../core/key/fingerprint.ts";
import { idIn, keptProviderId, providerId } from "../core/provider-id.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";

export class ProviderIds {
  readonly #definitions: ReadonlyMap<string, Definition>;
  readonly #digestKeys: readonly DigestKey[] | undefined;
  readonly #warnings: Warnings;

  constructor(
    definitions: ReadonlyMap<string, Definition>,
    digestKeys: readonly DigestKey[] | undefined,
    warnings: Warnings,
  ) {
    this.#definitions = definitions;
    this.#digestKeys = digestKeys;
    this.#warnings = warnings;
  }

  /** As the ledger keeps it; null: the result names none. Never throws: the effect has happened. */
  of(definition: Pick<Definition, "name" | "resultId">, result: unknown): string | null {
    if (result === undefined || result === null) return null;
    try {
      const { resultId } = definition;
      const id = resultId === undefined ? idIn(result) : resultId(result);
      if (id === undefined || id === null) return null;
      const kept = typeof id === "string" ? providerId(id) : null;
      if (kept !== null) return keptProviderId(kept, this.#digestKeys);
      // By the usual names it was only a guess.
      if (resultId === undefined) return null;
      this.#warn(definition.name, "did not return an id: it takes a text of 1 to 255 characters without blanks");
    } catch (error) {
      // Its message may quote the result.
      const name = error instanceof Error ? error.name : typeof error;
      if (definition.resultId !== undefined) this.#warn(definition.name, `threw (${name})`);
    }
    return null;
  }

  /** For a result that comes without the action's code: its own rule applies where this program has the action. */
  ofAction(action: string, result: unknown): string | null {
    return this.of(this.#definitions.get(action) ?? { name: action, resultId: undefined }, result);
  }

  #warn(action: string, what: string): void {
    this.#warnings.warn(
      "RESULT_ID",
      action,
      `action ${action}: its resultId ${what}. The result was kept as it is, and cannot be found by a provider's id. Return a string, or undefined where there is none.`,
    );
  }
}
