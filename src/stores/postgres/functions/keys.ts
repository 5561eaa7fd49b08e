/**
 * Keys and fingerprints in SQL, equal to those of core (canonical.ts, key.ts, fingerprint.ts); tests compare the two over
 * the published vectors and thousands of random values. `@.` stands for the schema. PostgreSQL 13, no extension.
 */
import { KEY_LIMITS } from "../../../core/key/canonical.ts";

/** Raised with these states; DETAIL holds the code that the library would use. */
export const SQL_ERRORS = {
  INVALID_KEY: "NT010",
  INVALID_INPUT: "NT011",
  KEY_CONFLICT: "NT012",
  CONFIG: "NT013",
  LEASE_LOST: "NT014",
  OUTCOME_UNKNOWN: "NT015",
} as const;

/** White space, control and format characters: what key.ts refuses as blank, as a bracket expression of PostgreSQL. */
export const BLANK_CHARACTERS =
  "\\u0001-\\u0020\\u007f-\\u00a0\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890-\\u0891\\u08e2\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u2064\\u2066-\\u206f\\u3000\\ufeff\\ufff9-\\ufffb\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0001\\U000e0020-\\U000e007f";

export const KEY_FUNCTIONS: readonly string[] = [
  // DETAIL is the library's code, so that a caller can tell errors apart without reading their text.
  `FUNCTION @._fail(code text, message text) RETURNS void LANGUAGE plpgsql AS
BEGIN
  RAISE EXCEPTION USING MESSAGE = message, DETAIL = code, ERRCODE = CASE code ${Object.entries(SQL_ERRORS)
    .map(([code, state]) => `WHEN '${code}' THEN '${state}'`)
    .join(" ")} ELSE 'NT013' END;
END`,

  // The shortest digits that read back as the same double, laid out as ECMAScript does. PostgreSQL's own are not always
  // the shortest: it avoids digits that are exactly midway between two doubles (1e23), so one digit less is tried.
  // What a double does not hold is refused: two large ids must not become one key.
  `FUNCTION @._number(value numeric, path text, code text) RETURNS text LANGUAGE plpgsql AS
DECLARE
  size numeric := abs(value);
  nearest double precision;
  own text;
  digits text;
  shorter text;
  point integer;
  places integer;
  candidate text;
  answer text;
BEGIN
  IF value = trunc(value) AND size <= 9007199254740991 THEN
    RETURN trunc(value)::text;
  END IF;
  IF size > 1.7976931348623157e308 OR size < 4.94065645841246544e-324 THEN
    PERFORM @._fail(code, format('%s: the number is outside of what a double holds. Pass it as text.', path));
  END IF;
  nearest := size::double precision;
  own := nearest::text;
  digits := split_part(own, 'e', 1);
  point := CASE WHEN strpos(digits, '.') > 0 THEN strpos(digits, '.') - 1 ELSE length(digits) END
    + CASE WHEN strpos(own, 'e') > 0 THEN split_part(own, 'e', 2)::integer ELSE 0 END;
  digits := replace(digits, '.', '');
  point := point - (length(digits) - length(ltrim(digits, '0')));
  digits := rtrim(ltrim(digits, '0'), '0');
  places := length(digits) - 1;
  IF places > 0 AND size < 1.7e308 THEN
    shorter := left(digits, places);
    FOREACH candidate IN ARRAY ARRAY[shorter, (shorter::numeric + 1)::text] LOOP
      IF (candidate || 'e' || (point - places))::double precision = nearest THEN
        point := point + length(candidate) - places;
        digits := rtrim(candidate, '0');
        EXIT;
      END IF;
    END LOOP;
  END IF;
  places := length(digits);
  answer := CASE
    WHEN places <= point AND point <= 21 THEN digits || repeat('0', point - places)
    WHEN 0 < point AND point <= 21 THEN left(digits, point) || '.' || substr(digits, point + 1)
    WHEN -6 < point AND point <= 0 THEN '0.' || repeat('0', -point) || digits
    ELSE left(digits, 1) || CASE WHEN places > 1 THEN '.' || substr(digits, 2) ELSE '' END
      || 'e' || CASE WHEN point < 1 THEN '-' ELSE '+' END || abs(point - 1)
  END;
  IF answer::numeric <> size AND own::numeric <> size THEN
    PERFORM @._fail(code, format('%s: the number has more digits than a double holds, so that a program would read another one. Pass it as text, or round it.', path));
  END IF;
  RETURN CASE WHEN value < 0 THEN '-' ELSE '' END || answer;
END`,

  // A text whose order in collation "C" (code points) is the order of UTF-16 code units: U+E000 to U+FFFF come after
  // everything outside of the basic plane.
  String.raw`FUNCTION @._utf16(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
SELECT CASE WHEN name ~ '[\uE000-\uFFFF\U0010FFFF]'
  THEN regexp_replace(replace(name, chr(1114111), chr(1114111) || chr(1)), '([\uE000-\uFFFF])', chr(1114111) || '\1', 'g')
  ELSE name END`,

  `FUNCTION @._canonical(value jsonb, path text, levels integer, code text) RETURNS text LANGUAGE plpgsql AS
DECLARE
  kind text := jsonb_typeof(value);
BEGIN
  IF kind = 'number' THEN
    RETURN @._number((value #>> '{}')::numeric, path, code);
  END IF;
  IF kind NOT IN ('array', 'object') THEN
    RETURN value::text;
  END IF;
  IF levels < 1 THEN
    PERFORM @._fail(code, format('%s: the value is nested too deeply. Pass less of it.', path));
  END IF;
  IF kind = 'array' THEN
    RETURN '[' || coalesce((SELECT string_agg(@._canonical(e.value, path || '[' || (e.place - 1) || ']', levels - 1, code), ',' ORDER BY e.place)
      FROM jsonb_array_elements(value) WITH ORDINALITY e(value, place)), '') || ']';
  END IF;
  RETURN '{' || coalesce((SELECT string_agg(to_json(f.key)::text || ':' || @._canonical(f.value, path || '.' || f.key, levels - 1, code), ','
      ORDER BY @._utf16(f.key) COLLATE "C") FROM jsonb_each(value) f), '') || '}';
END`,

  // SHA-256, or HMAC-SHA-256 where there is a secret: sha256() is all that a server without extensions has.
  `FUNCTION @._digest(message text, secret bytea) RETURNS bytea LANGUAGE plpgsql AS
DECLARE
  block bytea;
  inside bytea;
  outside bytea;
BEGIN
  IF secret IS NULL THEN
    RETURN sha256(convert_to(message, 'UTF8'));
  END IF;
  block := CASE WHEN length(secret) > 64 THEN sha256(secret) ELSE secret END;
  block := block || decode(repeat('00', 64 - length(block)), 'hex');
  inside := block;
  outside := block;
  FOR i IN 0..63 LOOP
    inside := set_byte(inside, i, get_byte(block, i) # 54);
    outside := set_byte(outside, i, get_byte(block, i) # 92);
  END LOOP;
  RETURN sha256(outside || sha256(inside || convert_to(message, 'UTF8')));
END`,

  `FUNCTION @._short(message text, secret bytea) RETURNS text LANGUAGE sql AS
SELECT translate(encode(substr(@._digest(message, secret), 1, 12), 'base64'), '+/', '-_')`,

  // The key as people and programs write it. Other texts than digests are kept as a zero byte and UTF-8.
  `FUNCTION @._key_text(id bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
SELECT CASE WHEN length(id) = 32 THEN 'nt1_' || (
    SELECT string_agg(substr('0123456789abcdefghijklmnopqrstuv',
      1 + ((((get_byte(id, i * 5 / 8) << 8) | CASE WHEN i * 5 / 8 < 31 THEN get_byte(id, i * 5 / 8 + 1) ELSE 0 END) >> (11 - i * 5 % 8)) & 31), 1), '' ORDER BY i)
    FROM generate_series(0, 51) i)
  ELSE convert_from(substr(id, 2, length(id) - 1 - CASE WHEN get_byte(id, length(id) - 1) = 0 THEN 1 ELSE 0 END), 'UTF8') END`,

  `FUNCTION @._key_bytes(key text) RETURNS bytea LANGUAGE plpgsql AS
DECLARE
  id bytea := decode(repeat('00', 32), 'hex');
  digits integer[];
BEGIN
  IF key IS NULL OR key !~ '^nt1_[0-9a-v]{51}[0g]$' THEN
    PERFORM @._fail('INVALID_KEY', 'key: this is not a key of nevertwice. A key is "nt1_" and 52 characters, as key(), take() and the view intents show it.');
  END IF;
  SELECT array_agg(strpos('0123456789abcdefghijklmnopqrstuv', substr(key, 5 + i, 1)) - 1 ORDER BY i) INTO digits FROM generate_series(0, 51) i;
  FOR i IN 0..31 LOOP
    id := set_byte(id, i, (((digits[i * 8 / 5 + 1] << 10) | (digits[i * 8 / 5 + 2] << 5) | digits[i * 8 / 5 + 3]) >> (7 - i * 8 % 5)) & 255);
  END LOOP;
  RETURN id;
END`,

  `FUNCTION @._blank(value text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
SELECT value ~ '^[${BLANK_CHARACTERS}]*$'`,

  // In UTF-16 units, as the library counts.
  String.raw`FUNCTION @._units(value text) RETURNS integer LANGUAGE sql IMMUTABLE AS
SELECT length(value) + length(regexp_replace(value, '[^\U00010000-\U0010FFFF]', '', 'g'))`,

  `FUNCTION @._intent(tenant text, action text, version bigint, scope text, parts jsonb, secret bytea) RETURNS bytea LANGUAGE plpgsql AS
DECLARE
  part jsonb;
  at integer := 0;
  own text;
  keyed text := '';
  empty text;
BEGIN
  IF tenant <> '' AND @._blank(tenant) THEN
    PERFORM @._fail('INVALID_KEY', 'tenant: must not be blank. Leave it out when there is only one tenant.');
  ELSIF action IS NULL OR @._blank(action) OR @._units(action) > 200 THEN
    PERFORM @._fail('INVALID_KEY', 'action: its name must be a text of 1 to 200 characters, not blank.');
  ELSIF scope IS NOT NULL AND (@._blank(scope) OR @._units(scope) > 1024) THEN
    PERFORM @._fail('INVALID_KEY', 'scope: must be a text of 1 to 1024 characters, not blank. Leave it out when the intent is not bound to a run, session or thread.');
  ELSIF version IS NULL OR version < 1 OR version > 9007199254740991 THEN
    PERFORM @._fail('INVALID_KEY', 'version: must be a positive whole number. It is 1, and one more at each deliberate resend.');
  ELSIF parts IS NULL OR jsonb_typeof(parts) <> 'array' THEN
    PERFORM @._fail('INVALID_KEY', 'parts: must be a JSON array of what names the intent, such as jsonb_build_array(NEW.id, ''welcome'').');
  ELSIF jsonb_array_length(parts) NOT BETWEEN 1 AND 64 THEN
    PERFORM @._fail('INVALID_KEY', format('parts: there are %s, and it takes 1 to 64. Without parts every call of the action would share one key.', jsonb_array_length(parts)));
  END IF;
  FOR part IN SELECT e.value FROM jsonb_array_elements(parts) WITH ORDINALITY e(value, place) ORDER BY e.place LOOP
    empty := CASE WHEN part = 'null' THEN 'null' WHEN part = '[]' THEN 'an empty array' WHEN part = '{}' THEN 'an empty object'
      WHEN part = '""' THEN 'an empty string' WHEN jsonb_typeof(part) = 'string' AND @._blank(part #>> '{}') THEN 'a blank string' END;
    IF empty IS NOT NULL THEN
      PERFORM @._fail('INVALID_KEY', format('key[%s]: the part is %s. An empty part would make different intents share one key, and all but the first would never run. Give it a value, or leave it out of the key.', at, empty));
    END IF;
    own := @._canonical(part, format('key[%s]', at), ${KEY_LIMITS.depth}, 'INVALID_KEY');
    -- A value takes two characters at least: shorter texts cannot have too many.
    IF length(own) > ${2 * KEY_LIMITS.nodes - 2} AND (SELECT count(*) FROM jsonb_path_query(part, 'strict $.**')) > ${KEY_LIMITS.nodes} THEN
      PERFORM @._fail('INVALID_KEY', format('key[%s]: a key part may hold ${KEY_LIMITS.nodes} values, and this has more. Key on the few fields that name the intent, such as ids.', at));
    END IF;
    keyed := keyed || ',' || own;
    at := at + 1;
  END LOOP;
  IF octet_length(convert_to(keyed, 'UTF8')) - at > ${KEY_LIMITS.bytes} THEN
    PERFORM @._fail('INVALID_KEY', 'key: its parts may be ${KEY_LIMITS.bytes} bytes of canonical JSON together, and these are more. Key on the few fields that name the intent, such as ids.');
  END IF;
  RETURN @._digest('["nt1",' || to_json(tenant)::text || ',' || to_json(action)::text || ',' || version || ',' || coalesce(to_json(scope)::text, 'null') || keyed || ']', secret);
END`,

  // The digests of an input. "fields" is the text of a JSON object.
  `FUNCTION @._print(payload jsonb, free text[], secret bytea, OUT guarded text, OUT loose text, OUT fields text, OUT body text) LANGUAGE plpgsql AS
DECLARE
  field record;
  own text;
  lone text;
  names integer := 0;
  guarded_text text := '';
  loose_text text := '';
BEGIN
  fields := '';
  IF jsonb_typeof(payload) <> 'object' THEN
    body := @._canonical(payload, 'payload', 64, 'INVALID_INPUT');
    guarded := @._short(body, secret) || ':';
    fields := '{"":' || to_json(left(guarded, 16))::text || '}';
  ELSE
    body := '{';
    FOR field IN SELECT f.key AS name, f.value FROM jsonb_each(coalesce(payload, '{}')) f ORDER BY @._utf16(f.key) COLLATE "C" LOOP
      own := @._canonical(field.value, 'payload.' || field.name, 63, 'INVALID_INPUT');
      IF field.name = ANY(free) THEN
        loose_text := loose_text || to_json(field.name)::text || ':' || own || ',';
      ELSE
        guarded_text := guarded_text || to_json(field.name)::text || ':' || own || ',';
        lone := @._short(own, secret) || ':' || field.name;
      END IF;
      body := body || CASE WHEN names = 0 THEN '' ELSE ',' END || to_json(field.name)::text || ':' || own;
      fields := fields || CASE WHEN names = 0 THEN '' ELSE ',' END || to_json(field.name)::text || ':' || to_json(@._short(own, secret))::text;
      names := names + 1;
    END LOOP;
    body := CASE WHEN payload IS NOT NULL THEN body || '}' END;
    fields := '{' || fields || '}';
    guarded := CASE WHEN names = 1 AND lone IS NOT NULL THEN lone ELSE @._short(guarded_text, secret) END;
    loose := CASE WHEN loose_text <> '' THEN @._short(loose_text, secret) END;
  END IF;
  IF octet_length(convert_to(body, 'UTF8')) > 262144 THEN
    PERFORM @._fail('INVALID_INPUT', 'payload: it may have 262144 bytes, and this has more. Store what is large elsewhere and pass where it is.');
  END IF;
END`,
];
