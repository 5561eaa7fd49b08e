/** What the SQL functions share: which ledger, tenant and secret a call is about, and how an attempt is settled. `@.` is the schema. */
import { LONGEST_AGENT } from "../../../core/agent-name.ts";
import { OWN_NAMES } from "../../../core/entry-name.ts";
import { BEFORE_CORRECTION, INPUT_REPLACED } from "../../../core/transition.ts";
import { SAME_MARK } from "../sql/row.ts";
import { CONTROLS, SPACES } from "./provider-id.ts";

const RESULT_BYTES = 1_048_576;

/** Not granted to anybody: the functions for callers run them with the owner's rights. */
export const SHARED_FUNCTIONS: readonly string[] = [
  // As the library decides whether a release may use a ledger: by the oldest release that can still work on it.
  `FUNCTION @._check(made_for integer) RETURNS void LANGUAGE plpgsql AS
DECLARE
  present integer;
  readable integer;
BEGIN
  SELECT max(m.value::integer) FILTER (WHERE m.name = 'schema_version'), max(m.value::integer) FILTER (WHERE m.name = 'readable_since')
  INTO present, readable FROM @.meta m WHERE m.name IN ('schema_version', 'readable_since');
  IF present IS NULL OR present < made_for OR readable > made_for THEN
    PERFORM @._fail('CONFIG', format('the SQL functions of this ledger were made for schema version %s, and its tables have version %s. Nothing was changed. Run nevertwice migrate --functions with the newest release that uses the ledger.', made_for, coalesce(present::text, '(none)')));
  END IF;
END`,

  // Behind row-level security the tenant is the one that the transaction names, also here, where the owner's rights would
  // show every row. Null where "everybody" is asked for and allowed.
  `FUNCTION @._tenant(given text) RETURNS text LANGUAGE plpgsql AS
DECLARE
  caller text := coalesce(nullif(current_setting('role', true), 'none'), session_user::text);
  named text := nullif(current_setting('nevertwice.tenant', true), '');
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = '@.records'::regclass AND p.polname = 'nevertwice_tenant')
    OR EXISTS (SELECT FROM pg_roles o WHERE o.rolname = caller AND (o.rolsuper OR o.rolbypassrls))
    OR EXISTS (SELECT FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner WHERE c.oid = '@.records'::regclass AND o.rolname = caller) THEN
    RETURN given;
  END IF;
  IF named IS NULL THEN
    PERFORM @._fail('CONFIG', 'this ledger has row-level security, and the transaction names no tenant. Nothing was changed. Begin with: SELECT set_config(''nevertwice.tenant'', ''<tenant>'', true).');
  ELSIF given <> named THEN
    PERFORM @._fail('CONFIG', 'tenant: this ledger has row-level security, and the transaction names another tenant (nevertwice.tenant). Nothing was changed.');
  END IF;
  RETURN named;
END`,

  // A key made without the secret would name another intent, silently. So it is stored when the functions are made, or
  // named by the session and checked against what was stored.
  `FUNCTION @._secret() RETURNS bytea LANGUAGE plpgsql AS
DECLARE
  known text;
BEGIN
  IF to_regclass('@.sql_secret') IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT s.secret INTO known FROM @.sql_secret s;
  IF known IS NULL THEN
    PERFORM @._fail('CONFIG', 'the keys of this ledger are made with a secret, and it was removed from the table sql_secret. Nothing was changed. Run: nevertwice migrate --functions --secret-env <variable>.');
  END IF;
  RETURN convert_to(known, 'UTF8');
END`,

  // Who acts, by the rule of core's agent-name.ts. Null: nobody is named.
  `FUNCTION @._agent(given text) RETURNS text LANGUAGE plpgsql AS
BEGIN
  IF given ~ '^[${SPACES}]*$' OR @._units(given) > ${LONGEST_AGENT} THEN
    PERFORM @._fail('CONFIG', format('agent is a text of %s characters. It takes a name of 1 to ${LONGEST_AGENT} characters, not blank, such as ''billing-bot''. Leave it out where no agent is to be named.', @._units(given)));
  ELSIF given ~ '[${CONTROLS}\\u2028\\u2029]' THEN
    PERFORM @._fail('CONFIG', 'agent contains a control character. Leave it out.');
  END IF;
  RETURN given;
END`,

  // Written by a program with encrypt.
  `FUNCTION @._sealed(r @.records) RETURNS boolean LANGUAGE sql AS
SELECT coalesce(left((r).input, 6) = 'ntseal', false) OR (r).doc ~ '^(\\[")?[0-9a-f]{8}[.]'`,

  `FUNCTION @._free_name(action text) RETURNS void LANGUAGE plpgsql AS
BEGIN
  IF action ~ '^(${OWN_NAMES.map((one) => one.replace(".", "[.]")).join("|")})' THEN
    PERFORM @._fail('INVALID_KEY', format('action: %s: names that begin so are the ledger''s own (notes, runs, sequences, jobs), and records of yours would be taken for them. Nothing was changed. Choose another name.', quote_literal(action)));
  END IF;
END`,

  // Whether a worker in SQL may have the row. What belongs to an order is left to the library, which keeps the order; what is
  // sealed, to those who have the key; what cannot be read, to a person: it must not stop the rows behind it.
  String.raw`FUNCTION @._takeable(r @.records) RETURNS boolean LANGUAGE plpgsql AS
BEGIN
  IF left(r.input, 6) = 'ntseal' OR r.rev < 0 OR r.attempt < 0 OR r.fence < 0 OR r.tries < 0 THEN
    RETURN false;
  ELSIF r.doc ~ '^[\w-]{16}:' AND coalesce(r.fate, '') ~ '^(\{"dueAt":[0-9]+\})?$' THEN
    RETURN true;
  END IF;
  RETURN @._rest(r.doc) -> 'terms' ->> 'line' IS NULL AND json_typeof(r.doc::json) = 'array' AND json_typeof(coalesce(r.fate, '{}')::json) = 'object';
EXCEPTION WHEN data_exception THEN
  RETURN false;
END`,

  `FUNCTION @._held(key text, of_tenant text) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  r @.records := @._row(@._key_bytes(key), coalesce(of_tenant, ''), NULL, true);
BEGIN
  IF r.state IS NULL THEN
    PERFORM @._fail('INVALID_KEY', format('there is no record of the key %s%s. Give the tenant that it belongs to, if it has one.', key, CASE WHEN coalesce(of_tenant, '') = '' THEN ' without a tenant' ELSE ' of this tenant' END));
  END IF;
  RETURN r;
END`,

  `FUNCTION @._settle(r @.records, outcome text, result jsonb, holder text, fence integer, error text, retry_after interval, agent text) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  at bigint := @._now();
  rest json := @._rest(r.doc);
  held boolean := r.state IN ('claimed', 'sent') AND r.holder = holder AND (fence IS NULL OR r.fence = fence);
  problem json := CASE WHEN error IS NOT NULL THEN json_build_object('name', 'Error', 'message', CASE WHEN length(error) > 500 THEN left(error, 499) || '…' ELSE error END) END;
  said text;
  stored text := result::text;
  final boolean := outcome = 'rejected';
  by_agent text := @._agent(agent);
  earlier @.records := r;
  late boolean := NOT coalesce(held OR (holder IS NULL AND r.state IN ('claimed', 'sent') AND coalesce(fence, r.fence) = r.fence), false);
  other json;
  following record;
  doubted boolean := coalesce((rest ->> 'doubted')::boolean, false);
BEGIN
  IF outcome IS NULL OR outcome NOT IN ('done', 'not-sent', 'refused', 'rejected', 'unknown') THEN
    PERFORM @._fail('CONFIG', format('outcome is %s; it takes ''done'', ''not-sent'' (tried again), ''refused'' (not done; may be corrected and called again), ''rejected'' (refused for good) or ''unknown'' (nobody can tell).', coalesce(quote_literal(outcome), 'null')));
  END IF;
  IF octet_length(stored) > ${RESULT_BYTES} THEN
    stored := '!it is larger than ${RESULT_BYTES} bytes';
  END IF;
  IF outcome = 'done' THEN
    -- A fact about success is welcome late and from any attempt, and told twice it is the same fact.
    IF r.state = 'confirmed' THEN
      IF @._json(r.result) <> result THEN
        RAISE WARNING USING MESSAGE = format('duplicate_detected: %s: a second attempt reports success with another result: the effect may have happened twice. The first result stays. See: nevertwice show %s', r.action, @._key_text(r.key)), DETAIL = 'DUPLICATE_DETECTED';
      END IF;
      RETURN @._outcome(r, at);
    END IF;
    IF r.fence < 1 OR fence < 1 OR fence > r.fence THEN
      PERFORM @._fail('LEASE_LOST', 'this attempt was never handed out for this key, so that it cannot have been done. Nothing was changed. Settle what claim(), try_claim() or take() gave you.');
    END IF;
    IF late THEN
      -- Without a fence, another holder's may be any attempt before.
      other := @._earlier(r, coalesce(fence, CASE WHEN holder IS NULL OR r.holder = holder THEN r.fence END));
      other := CASE WHEN other ->> 'guarded' <> @._redoc(r.doc, '{}')::json ->> 0 THEN other END;
      IF other IS NOT NULL AND (r.state IN ('sent', 'unknown') OR @._alive(r, at)) THEN
        RAISE WARNING USING MESSAGE = format('duplicate_detected: %s: an attempt with the input before its correction reports success: the effect may have happened twice. The record is about the corrected input. See: nevertwice show %s', r.action, @._key_text(r.key)), DETAIL = 'DUPLICATE_DETECTED';
        IF rest -> 'history' -> -1 ->> 'reason' IS DISTINCT FROM '${BEFORE_CORRECTION}' THEN
          r.doc := @._redoc(r.doc, @._with(@._noted(r, 'late-success', r.state, at, '${BEFORE_CORRECTION}', NULL), 'doubted', 'true'));
          r.sent_mark := CASE WHEN r.first_sent_at IS NULL THEN '${SAME_MARK}' ELSE r.sent_mark END;
          r.last_sent_at := CASE WHEN r.first_sent_at IS NULL THEN at ELSE r.last_sent_at END;
          r.first_sent_at := coalesce(r.first_sent_at, at);
        END IF;
        RETURN @._outcome(@._store(r, at), at);
      END IF;
    END IF;
    IF by_agent IS NOT NULL THEN
      r := @._acted(r, by_agent, at);
    END IF;
    IF late THEN
      -- Of the attempt that it was until now.
      earlier.doc := r.doc;
      rest := @._noted(earlier, 'late-success', 'confirmed', at, CASE WHEN other IS NOT NULL THEN '${BEFORE_CORRECTION}' END, NULL, CASE WHEN other IS NOT NULL THEN @._replaced(earlier) END);
      -- The corrected input was not run: the record is about the one that was.
      r.doc := CASE WHEN other IS NULL THEN @._redoc(r.doc, rest) ELSE @._doc(other ->> 'guarded', other ->> 'free', (other -> 'fields')::text, rest) END;
      r.input := CASE WHEN other IS NULL THEN r.input ELSE '!${INPUT_REPLACED.omitted}' END;
    END IF;
    r := @._settled(r, 'confirmed', stored, NULL, false, at);
    -- With encrypt the ledger holds no plain id, and SQL has no key for its digest.
    r.provider_id := CASE WHEN NOT @._sealed(r) THEN @._provider_id(result) END;
    r := @._store(r, at);
    PERFORM @._ring(r, true);
    RETURN @._outcome(r, at);
  END IF;
  IF holder IS NULL THEN
    PERFORM @._fail('CONFIG', format('holder: it is needed for %s. A failure counts for the attempt that met it and for no other: pass the holder that you gave to claim(), or that try_claim() or take() returned.', quote_literal(outcome)));
  END IF;
  IF NOT coalesce(held, false) THEN
    -- Settled by this attempt before: the answer got lost.
    IF r.holder = holder AND (fence IS NULL OR r.fence = fence) AND r.state IN ('pending', 'failed', 'unknown') THEN
      RETURN @._outcome(r, at);
    END IF;
    PERFORM @._fail('LEASE_LOST', 'another attempt has this record, or it is settled. Nothing was changed: an old attempt''s failure says nothing about the one after it. If the effect happened, say so with ''done''.');
  END IF;
  IF outcome <> 'unknown' THEN
    IF by_agent IS NOT NULL THEN
      r := @._acted(r, by_agent, at);
    END IF;
    IF outcome = 'not-sent' THEN
      following := @._next_try(r, retry_after, at);
    ELSE
      SELECT NULL::bigint AS due, NULL::bigint AS gives_up, NULL::text AS because INTO following;
    END IF;
    said := coalesce(problem ->> 'message', 'not sent') || coalesce(' (' || following.because || ')', '');
    problem := json_build_object('name', 'Error', 'message', said);
  END IF;
  IF outcome = 'unknown' OR doubted THEN
    IF outcome = 'unknown' AND r.state <> 'sent' THEN
      PERFORM @._fail('CONFIG', 'the record is claimed and not marked as sent, so that there is no doubt: settle it as ''not-sent'', or call sent() before the effect.');
    END IF;
    IF outcome = 'unknown' THEN
      r.doc := @._redoc(r.doc, @._noted(r, 'doubt', 'unknown', at, 'its caller could not tell whether it happened', problem ->> 'message'));
      r := @._doubtful(r, 'its caller could not tell whether it happened', problem, at);
    ELSE
      r.doc := @._redoc(r.doc, @._noted(r, 'not-sent', 'unknown', at, NULL, said));
      r := @._doubtful(r, 'an earlier attempt may have happened; the last one did not', problem, at);
    END IF;
  ELSE
    r.doc := @._redoc(r.doc, @._noted(r, CASE WHEN final THEN 'rejected' ELSE 'not-sent' END, CASE WHEN following.due IS NULL THEN 'failed' ELSE 'pending' END, at, NULL, said));
    IF following.gives_up IS NOT NULL THEN
      rest := @._rest(r.doc);
      r.doc := @._redoc(r.doc, @._with(rest, 'terms', @._with(rest -> 'terms', 'givesUpAt', to_json(following.gives_up))));
    END IF;
    r := CASE WHEN following.due IS NULL THEN @._settled(r, 'failed', NULL, problem, final, at) ELSE @._idle(r, following.due, problem, at) END;
  END IF;
  r := @._store(r, at);
  PERFORM @._ring(r, true);
  RETURN @._outcome(r, at);
END`,
];
