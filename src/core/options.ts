/** One check of options: one that is misspelled would otherwise be ignored, and its default used. */
import { noSuchOption } from "./errors.ts";

export function refuseUnknownOptions(where: string, options: object, known: readonly string[]): void {
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw noSuchOption(where, wrong, known);
}
