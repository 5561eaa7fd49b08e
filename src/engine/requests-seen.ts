/**
 * Whether an attempt asked somebody else for something before a database refused it. Seen are requests by fetch, undici
 * and node:http, and so by what is built on them. Not seen are SMTP, HTTP/2 and other processes: so this makes verdicts
 * more careful, and permits none.
 */
import { subscribe } from "node:diagnostics_channel";
import { currentAttempt } from "./context.ts";

const HARMLESS: ReadonlySet<unknown> = new Set(["GET", "HEAD", "OPTIONS"]);
const CHANNELS = ["undici:request:create", "http.client.request.start"] as const;

// By context: attempts that ask nobody pay nothing for it.
const seen = new WeakMap<object, number>();
let watching = false;

/** Subscribed with the first attempt, not with the import: a program that only imports the package is left as it is. */
export function watchRequests(): void {
  if (watching) return;
  watching = true;
  for (const channel of CHANNELS) subscribe(channel, noteRequest);
}

export function requestsOf(context: object | null): number {
  return context === null ? 0 : (seen.get(context) ?? 0);
}

/** What came before the send mark was no effect. */
export function forgetRequests(context: object): void {
  seen.delete(context);
}

function noteRequest(message: unknown): void {
  const attempt = currentAttempt();
  if (attempt === undefined) return;
  const { request } = message as { readonly request?: { readonly method?: unknown } };
  if (!HARMLESS.has(request?.method)) seen.set(attempt, (seen.get(attempt) ?? 0) + 1);
}
