/**
 * How an event that a provider delivered is named in the ledger: the action "webhook", with the source and the event's own id
 * as the parts of its key. The import of processed events and whoever receives new ones have to agree on it.
 */

export const WEBHOOK_ACTION = "webhook";

/** `source`: the provider, in lower case, such as "stripe". */
export function webhookParts(source: string, eventId: string): readonly [source: string, eventId: string] {
  return [source, eventId];
}
