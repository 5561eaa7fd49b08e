/** The ledger as people read it: the view `intents`. */

import { NOTE_ACTIONS } from "../../../core/note.ts";
import { quoteName, quoteText } from "../sql/schema.ts";
import { isAlias } from "./aliases.ts";

/**
 * Notes of the ledger are no intents; an alias has its intent under another key.
 * A view has its owner's rights, so row-level security is asked for in it. Columns may only be added at the end: a view
 * that others build on is replaced, not dropped.
 */
export function intentsView(schema: string): string {
  const name = quoteName(schema);
  const time = (ms: string) => `to_timestamp((${ms}) / 1000.0)`;
  const fate = "coalesce(r.fate, '{}')::json";
  const alive = "(r.lease_until > clock.now AND r.lease_epoch IS NULL)";
  return `CREATE OR REPLACE VIEW ${name}.intents WITH (security_barrier = true) AS
SELECT r.agent COLLATE "default" AS agent, r.action, r.state,
  CASE WHEN r.state = 'confirmed' THEN 'done' WHEN r.state IN ('failed', 'unknown') THEN r.state
    WHEN r.state IN ('claimed', 'sent') AND ${alive} THEN 'in_flight' WHEN r.state = 'sent' THEN 'unknown'
    WHEN r.queued THEN 'queued' ELSE 'failed' END AS status,
  r.attempt AS attempts, ${time("r.created_at")} AS created_at, ${time(`(${fate} ->> 'dueAt')::bigint`)} AS due_at,
  ${time("r.last_sent_at")} AS sent_at,
  CASE WHEN r.state IN ('confirmed', 'failed') THEN ${time(`coalesce((${fate} ->> 'settledAt')::bigint, r.updated_at)`)} END AS settled_at,
  ${name}._json(r.result) AS result, ${fate} -> 'error' ->> 'message' AS error, 
  coalesce(${fate} ->> 'why', CASE WHEN r.state = 'sent' AND NOT ${alive} THEN 'its lease is over, and its holder did not say what happened' END) AS why,
  ${name}._json(r.input) AS payload, r.queued, r.scope, r.tenant,
  coalesce((${name}._rest(r.doc) ->> 'version')::bigint, 1) AS version, ${name}._key_text(r.key) AS key, r.fence, r.holder,
  ${time("r.lease_until")} AS lease_until, ${time("r.updated_at")} AS updated_at, ${time("r.expires_at")} AS expires_at, r.provider_id
FROM ${name}.records r CROSS JOIN (SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now) clock
WHERE ${NOTE_ACTIONS.map((beginning) => `r.action NOT LIKE ${quoteText(`${beginning}%`)} AND`).join(" ")} NOT coalesce(${isAlias("r")}, false) AND (r.expires_at IS NULL OR r.expires_at > clock.now)
  AND (NOT row_security_active(${quoteText(`${name}.records`)}) OR r.tenant = nullif(current_setting('nevertwice.tenant', true), ''))`;
}
