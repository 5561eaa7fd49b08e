/** The provider's own id in a result that a SQL caller settles with: core's provider-id.ts. `@.` is the schema. */
import { DEEPEST_JSON } from "../../../core/foreign-json.ts";
import { ID_FIELDS, LONGEST_ID, LONGEST_JSON } from "../../../core/provider-id.ts";
import { quoteText } from "../sql/schema.ts";

/** What trim() and \s take for white space in JavaScript, for a bracket expression of PostgreSQL. */
export const SPACES = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";
/** \p{Cc}, but for U+0000, which no text of PostgreSQL has. */
export const CONTROLS = "\\u0001-\\u001f\\u007f-\\u009f";

export const PROVIDER_ID_FUNCTIONS: readonly string[] = [
  // A whole number is one that a program reads as such: by the nearest double.
  `FUNCTION @._id_field(value jsonb) RETURNS text LANGUAGE plpgsql AS
DECLARE
  name text;
  own jsonb;
  given numeric;
  nearest double precision;
BEGIN
  FOREACH name IN ARRAY ARRAY[${ID_FIELDS.map(quoteText).join(", ")}] LOOP
    own := CASE WHEN jsonb_typeof(value) = 'object' THEN value -> name END;
    IF jsonb_typeof(own) = 'string' AND own #>> '{}' <> '' THEN
      RETURN own #>> '{}';
    ELSIF jsonb_typeof(own) = 'number' THEN
      given := (own #>> '{}')::numeric;
      CONTINUE WHEN abs(given) >= ${Number.MAX_SAFE_INTEGER + 1};
      nearest := CASE WHEN abs(given) < 1e-300 THEN 0 ELSE given::double precision END;
      IF nearest = trunc(nearest) AND abs(nearest) <= ${Number.MAX_SAFE_INTEGER} THEN
        RETURN nearest::bigint::text;
      END IF;
    END IF;
  END LOOP;
  RETURN NULL;
END`,

  `FUNCTION @._too_deep(body text) RETURNS boolean LANGUAGE sql AS
SELECT length(body) > ${2 * DEEPEST_JSON} AND coalesce((SELECT max(d.levels) FROM (
  SELECT sum(CASE WHEN b.sign IN ('[', '{') THEN 1 ELSE -1 END) OVER (ORDER BY b.place) AS levels
  FROM regexp_split_to_table(regexp_replace(regexp_replace(body, '"([^"\\\\]|\\\\.)*"', '', 'g'), '[^][{}]', '', 'g'), '') WITH ORDINALITY b(sign, place)) d), 0) > ${DEEPEST_JSON}`,

  // By the usual names in the result, then in its "data". A text is the id, or JSON that has it. Null: there is none, or none
  // that can be kept.
  `FUNCTION @._provider_id(result jsonb) RETURNS text LANGUAGE plpgsql AS
DECLARE
  id text;
  inside jsonb := result;
BEGIN
  IF jsonb_typeof(result) = 'string' THEN
    id := result #>> '{}';
    IF id ~ '^[${SPACES}]*[[{]' THEN
      IF @._units(id) > ${LONGEST_JSON} OR @._too_deep(id) THEN
        RETURN NULL;
      END IF;
      BEGIN
        inside := id::jsonb;
      EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
      END;
      id := NULL;
    END IF;
  END IF;
  id := coalesce(id, @._id_field(inside), @._id_field(CASE WHEN jsonb_typeof(inside) = 'object' THEN inside -> 'data' END));
  id := regexp_replace(id, '^[${SPACES}]+|[${SPACES}]+$', '', 'g');
  IF id ~ '^<[^<>]+>$' THEN
    id := substr(id, 2, length(id) - 2);
  END IF;
  RETURN CASE WHEN id <> '' AND @._units(id) <= ${LONGEST_ID} AND id !~ '[${SPACES}${CONTROLS}]' THEN id END;
END`,
];
