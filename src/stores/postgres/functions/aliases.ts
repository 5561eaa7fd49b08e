/** The key of a changed definition as an alias of the former one (core's formerly.ts), as the SQL functions follow it. `@.` is the schema. */
import { OF_ACTION, POINTS_TO } from "../../../core/key/formerly.ts";
import { OMITTED } from "../../shared/payload-text.ts";

const BEGINNING = `${OMITTED}${POINTS_TO}`;
/** An alias of an alias comes about where two definitions were changed one after the other. */
const MOST_HOPS = 16;

/** Whether a row is an alias, as far as a view needs to know it: what never has a fingerprint is looked at first. */
export function isAlias(row: string): string {
  return `(${row}.doc LIKE '["",null,{}%' AND ${row}.state = 'confirmed' AND left(${row}.result, ${BEGINNING.length}) = '${BEGINNING}')`;
}

export const ALIAS_FUNCTIONS: readonly string[] = [
  // The key and the action that the row stands for; null: it is no alias.
  `FUNCTION @._alias(r @.records, at bigint) RETURNS text[] LANGUAGE sql AS
SELECT CASE WHEN (r).state = 'confirmed' AND left((r).result, ${BEGINNING.length}) = '${BEGINNING}' AND NOT @._over(r, at)
  THEN regexp_match((r).result, '^${BEGINNING}(nt1_[0-9a-v]{51}[0g])${OF_ACTION}(.*)$') END`,

  // The row of an intent, under its key or the one that its alias names: whoever claims, claims that row. Without a state:
  // there is none yet, and this is where it has to begin.
  `FUNCTION @._row(id bytea, of_tenant text, of_action text, locked boolean) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  r @.records;
  target text[];
BEGIN
  FOR hop IN 0..${MOST_HOPS} LOOP
    IF locked THEN
      SELECT t.* INTO r FROM @.records t WHERE t.key = id AND t.tenant = of_tenant FOR NO KEY UPDATE;
    ELSE
      SELECT t.* INTO r FROM @.records t WHERE t.key = id AND t.tenant = of_tenant;
    END IF;
    IF NOT FOUND THEN
      r := NULL;
      r.key := id;
      r.tenant := of_tenant;
      r.action := of_action;
      RETURN r;
    END IF;
    target := @._alias(r, @._now());
    IF target IS NULL THEN
      RETURN r;
    END IF;
    id := @._key_bytes(target[1]);
    of_action := target[2];
  END LOOP;
  PERFORM @._fail('CONFIG', format('the keys of this intent are aliases of each other, and no record is found behind them. Nothing was changed. See: nevertwice show %s', @._key_text(id)));
END`,
];
