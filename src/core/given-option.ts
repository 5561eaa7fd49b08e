import { configError } from "./errors.ts";

/**
 * An option that is there without a value is most likely a variable that is not set. Taken as "not given" it would
 * switch encryption off, put one tenant's records among everybody's, or commit at once what belongs to a transaction.
 */
export function requireGiven(
  where: string,
  options: object,
  names: readonly string[],
  cause = "The environment variable it comes from may not be set.",
): void {
  for (const name of names) {
    if (!(name in options)) continue;
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined && value !== null && value !== "") continue;
    const is = value === "" ? "an empty string" : String(value);
    throw configError(
      `${where}: ${name} is ${is}. ${cause} Give it a value, or leave the option out if no ${name} is meant.`,
    );
  }
}
