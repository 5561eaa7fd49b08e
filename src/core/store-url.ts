/** Parameters in the URL of a store. What nothing reads is refused: its author counts on it. Values are never shown, some are secrets. */
import { configError } from "./errors.ts";
import { nearest } from "./nearest.ts";

export interface UrlParameters {
  /** What the store itself reads. */
  readonly own: readonly string[];
  /** What the driver reads; handed on as it is. */
  readonly driver: readonly string[];
  /** What else to say about the driver's. */
  readonly hint?: string;
}

export function refuseUnknownParameters(
  where: string,
  names: Iterable<string>,
  { own, driver, hint = "" }: UrlParameters,
): void {
  for (const name of names) {
    if (own.includes(name) || driver.includes(name)) continue;
    const meant = nearest(name, own) ?? nearest(name, driver);
    const slip = meant === null ? "" : ` Did you mean ${meant}?`;
    const theirs = driver.length === 0 ? "" : ` And of the connection: ${driver.join(", ")}.`;
    const ours = own.length === 0 ? " It takes none." : ` The ledger's parameters are: ${own.join(", ")}.`;
    throw configError(
      `${where}: the URL has the parameter ${JSON.stringify(name.slice(0, 40))}, which nothing reads.${slip}${ours}${theirs}${hint}`,
    );
  }
}

/** true, 1, false or 0; null: it is not there. */
export function flagParameter(params: URLSearchParams, name: string, where: string): boolean | null {
  const text = params.get(name);
  if (text === null) return null;
  if (text === "true" || text === "1") return true;
  if (text === "false" || text === "0") return false;
  throw configError(`${where}: ${name} in the URL is ${JSON.stringify(text.slice(0, 40))}; it takes true or false.`);
}
