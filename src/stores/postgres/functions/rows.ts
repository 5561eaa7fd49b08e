/**
 * Rows as the SQL functions read and write them: what stores/postgres/sql/row.ts makes of a record, and what core's transitions do to
 * one. A row is changed as a whole and stored at the end; what a later release adds to it is kept. `@.` is the schema.
 */

import { NOT_KNOWN } from "../../../core/earlier-input.ts";
import { NO_RESULT } from "../../../core/kept-result.ts";
import { HISTORY_LIMIT, PRIORITY_STEP_MS } from "../../../core/record.ts";
import { NO_LONGER_NEEDED } from "../../../core/retention.ts";
import { LEASED, SAME_MARK, YOUNG_MS } from "../sql/row.ts";

const LAPSED = "its holder stopped answering after the send mark: the lease ran out";

export const ROW_FUNCTIONS: readonly string[] = [
  `FUNCTION @._now() RETURNS bigint LANGUAGE sql VOLATILE AS
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`,

  `FUNCTION @._ms(span interval, name text) RETURNS bigint LANGUAGE plpgsql AS
DECLARE
  ms numeric := round(extract(epoch FROM span) * 1000);
BEGIN
  IF ms <= 0 OR ms > 3155760000000 THEN
    PERFORM @._fail('CONFIG', format('%s: %s is not a duration above zero and below 100 years.', name, span));
  END IF;
  RETURN ms;
END`,

  // ---- the text columns: doc (fingerprint and rest) and fate ----

  `FUNCTION @._rest(doc text) RETURNS json LANGUAGE sql IMMUTABLE AS
SELECT CASE WHEN left(doc, 1) = '[' THEN doc::json -> 3 END`,

  // json, not jsonb, so that every member stays as it was written. Null removes.
  `FUNCTION @._with(rest json, name text, value json) RETURNS json LANGUAGE sql IMMUTABLE AS
SELECT ('{' || string_agg(to_json(m.key)::text || ':' || m.value::text, ',') || '}')::json FROM (
  SELECT e.key, e.value FROM json_each(coalesce(rest, '{}')) e WHERE e.key <> name
  UNION ALL SELECT name, value WHERE value IS NOT NULL) m`,

  String.raw`FUNCTION @._doc(guarded text, loose text, fields text, rest json) RETURNS text LANGUAGE sql IMMUTABLE AS
SELECT CASE WHEN rest IS NULL AND guarded ~ '^[\w-]{16}:[ -~]*$' THEN guarded
  ELSE '[' || to_json(guarded)::text || ',' || coalesce(to_json(loose)::text, 'null') || ',' || fields || coalesce(',' || rest::text, '') || ']' END`,

  // The same fingerprint with another rest.
  `FUNCTION @._redoc(doc text, rest json) RETURNS text LANGUAGE sql IMMUTABLE AS
SELECT CASE WHEN left(doc, 1) = '[' THEN '[' || (doc::json -> 0)::text || ',' || (doc::json -> 1)::text || ',' || (doc::json -> 2)::text || coalesce(',' || rest::text, '') || ']'
  WHEN rest IS NULL THEN doc
  ELSE '[' || to_json(doc)::text || ',null,{' || to_json(substr(doc, 18))::text || ':' || to_json(left(doc, 16))::text || '},' || rest::text || ']' END`,

  `FUNCTION @._keep(r @.records) RETURNS bigint LANGUAGE sql AS
SELECT CASE WHEN kept.given IS NOT NULL THEN nullif(kept.given::text, 'null')::bigint WHEN (r).keep_ms >= 0 THEN (r).keep_ms END
FROM (SELECT @._rest((r).doc) -> 'keepMs' AS given) kept`,

  // The input of the row, as an entry of its history keeps it when another takes its place (core's earlier-input.ts).
  `FUNCTION @._replaced(r @.records) RETURNS json LANGUAGE sql AS
SELECT json_build_object('from', coalesce(max((h.entry -> 'replaced' ->> 'to')::integer), 0) + 1, 'to', (r).fence,
  'guarded', min(d.print ->> 0), 'free', min(d.print ->> 1), 'fields', min((d.print -> 2)::text)::json)
FROM (SELECT @._redoc((r).doc, '{}')::json AS print) d LEFT JOIN json_array_elements(@._rest((r).doc) -> 'history') h(entry) ON true`,

  // The input of an attempt, where the row has had another one since; null: it has the same.
  `FUNCTION @._earlier(r @.records, of_fence integer) RETURNS json LANGUAGE sql AS
SELECT CASE WHEN of_fence > i.last OR i.last IS NULL THEN NULL ELSE coalesce((SELECT e.one FROM unnest(i.ones) e(one)
  WHERE of_fence BETWEEN (e.one ->> 'from')::integer AND (e.one ->> 'to')::integer AND e.one ->> 'guarded' <> '' LIMIT 1), '${JSON.stringify(NOT_KNOWN)}') END
FROM (SELECT max((h.entry -> 'replaced' ->> 'to')::integer) AS last, array_agg(h.entry -> 'replaced') AS ones
  FROM json_array_elements(@._rest((r).doc) -> 'history') h(entry)) i`,

  // The rest with one more entry in the history, bounded: the oldest go, but not the last that names an input.
  `FUNCTION @._noted(r @.records, event text, to_state text, at bigint, reason text, error text, replaced json DEFAULT NULL) RETURNS json LANGUAGE plpgsql AS
DECLARE
  rest json := @._rest(r.doc);
  over integer := json_array_length(coalesce(rest -> 'history', '[]')) - ${HISTORY_LIMIT - 1};
  named bigint := (SELECT max(a.place) FROM json_array_elements(rest -> 'history') WITH ORDINALITY a(entry, place)
    WHERE replaced IS NULL AND a.entry -> 'replaced' IS NOT NULL);
  entry json := json_build_object('at', at, 'event', event, 'from', CASE WHEN r.attempt > 0 THEN r.state END, 'to', to_state, 'attempt', r.attempt);
BEGIN
  entry := @._with(@._with(@._with(@._with(entry, 'agent', to_json(r.agent)), 'reason', to_json(reason)), 'error', to_json(error)), 'replaced', replaced);
  RETURN @._with(rest, 'history', (SELECT json_agg(e.entry ORDER BY e.place) FROM (
    SELECT a.entry, a.place FROM json_array_elements(coalesce(rest -> 'history', '[]')) WITH ORDINALITY a(entry, place)
    WHERE a.place = named OR a.place > over + CASE WHEN named <= over THEN 1 ELSE 0 END
    UNION ALL SELECT entry, 1000) e));
END`,

  // The row as another agent goes on with it (core's history.ts). Who was at it before is kept, unless the history names it already.
  `FUNCTION @._acted(r @.records, by_agent text, at bigint) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  last json := @._rest(r.doc) -> 'history' -> -1;
BEGIN
  IF by_agent IS DISTINCT FROM r.agent THEN
    IF r.agent IS NOT NULL AND NOT coalesce((last ->> 'attempt')::integer = r.attempt AND last ->> 'agent' = r.agent, false) THEN
      r.doc := @._redoc(r.doc, @._noted(r, 'taken-over', r.state, at, NULL, NULL));
    END IF;
    r.agent := by_agent;
  END IF;
  RETURN r;
END`,

  // Which guarded fields differ from the input that the row was written for.
  String.raw`FUNCTION @._differs(doc text, guarded text, loose text, fields text, free text[]) RETURNS text[] LANGUAGE plpgsql AS
DECLARE
  stored json := CASE WHEN left(doc, 1) = '[' THEN doc::json END;
  stored_guarded text := coalesce(stored ->> 0, doc);
  stored_fields text := coalesce((stored -> 2)::text, '{' || to_json(substr(doc, 18))::text || ':' || to_json(left(doc, 16))::text || '}');
BEGIN
  IF stored_guarded = guarded AND (stored ->> 1) IS NOT DISTINCT FROM loose THEN
    RETURN '{}';
  END IF;
  IF stored_guarded ~ '^[0-9a-f]{8}\.' THEN
    PERFORM @._fail('CONFIG', 'the record was written by a program with encrypt, so that its input cannot be compared in SQL. Nothing was changed. Use the library for this action.');
  END IF;
  -- A name that jsonb cannot hold is no field of an input that came from SQL.
  IF strpos(stored_fields, '\u0000') > 0 THEN
    RETURN '{(input)}';
  END IF;
  RETURN coalesce((SELECT array_agg(CASE WHEN d.name = '' THEN '(input)' ELSE d.name END ORDER BY d.name COLLATE "C")
    FROM (SELECT coalesce(a.key, b.key) AS name, a.value AS one, b.value AS other
      FROM json_each_text(stored_fields::json) a FULL JOIN json_each_text(fields::json) b ON a.key = b.key) d
    WHERE d.one IS DISTINCT FROM d.other AND (free IS NULL OR d.name <> ALL(free))
      -- Of an imported row a part of the input is known; nothing else of it is compared.
      AND (stored_guarded <> '*' OR (d.one IS NOT NULL AND d.other IS NOT NULL))), '{}');
END`,

  // What the row means for another input (core's core/conflict.ts); null: the input is the same. A failure that is not final is
  // replaced by any input: one that cannot be compared need not be.
  String.raw`FUNCTION @._other(r @.records, guarded text, loose text, fields text, free text[], at bigint, OUT differs text[], OUT meets text) LANGUAGE plpgsql AS
DECLARE
  rest json := @._rest(r.doc);
BEGIN
  IF r.state = 'failed' AND NOT @._final(r) AND r.doc ~ '^\["[0-9a-f]{8}\.' THEN
    differs := '{}';
    RETURN;
  END IF;
  differs := @._differs(r.doc, guarded, loose, fields, free);
  meets := CASE
    WHEN differs = '{}' THEN NULL
    WHEN r.state = 'confirmed' OR (r.state IN ('claimed', 'sent') AND @._alive(r, at)) THEN 'conflict'
    WHEN r.state = 'claimed' AND coalesce((rest ->> 'doubted')::boolean, false) THEN 'conflict'
    WHEN r.state IN ('sent', 'unknown') THEN 'in-doubt'
    WHEN r.state = 'failed' OR NOT r.queued THEN 'new-round'
    WHEN (SELECT h.entry ->> 'event' FROM json_array_elements(coalesce(rest -> 'history', '[]')) WITH ORDINALITY h(entry, place)
      WHERE h.entry ->> 'event' <> 'taken-over' ORDER BY h.place DESC LIMIT 1) = 'resolved-not-done' THEN 'new-round'
    ELSE 'conflict' END;
END`,

  `FUNCTION @._final(r @.records) RETURNS boolean LANGUAGE sql AS
SELECT coalesce(((r).fate::json ->> 'final')::boolean, false)`,

  // ---- transitions ----

  `FUNCTION @._alive(r @.records, at bigint) RETURNS boolean LANGUAGE sql AS
SELECT coalesce((r).lease_until > at AND (r).lease_epoch IS NULL, false)`,

  `FUNCTION @._over(r @.records, at bigint) RETURNS boolean LANGUAGE sql AS
SELECT coalesce((r).expires_at <= at, false)`,

  // A record that begins: pending, nothing tried. "before" is the row that it replaces.
  `FUNCTION @._begin(before @.records, id bytea, of_tenant text, of_action text, of_scope text, of_version bigint, keep_ms bigint, at bigint, guarded text) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  r @.records;
  rest json;
BEGIN
  IF before.state IS NOT NULL THEN
    -- All that is left of its history: which inputs its attempts had.
    before.agent := NULL;
    before.doc := @._redoc(before.doc, @._with(NULL, 'history', (SELECT json_agg(@._with(@._with(h.entry, 'event', '"begun-anew"'), 'to', '"pending"') ORDER BY h.place)
      FROM json_array_elements(@._rest(before.doc) -> 'history') WITH ORDINALITY h(entry, place) WHERE h.entry -> 'replaced' IS NOT NULL)));
    rest := CASE WHEN @._redoc(before.doc, '{}')::json ->> 0 <> guarded
      THEN @._noted(before, 'begun-anew', 'pending', at, NULL, NULL, @._replaced(before)) ELSE @._rest(before.doc) END;
  END IF;
  r.key := id;
  r.tenant := of_tenant;
  r.action := of_action;
  r.scope := of_scope;
  r.created_at := at;
  r.updated_at := at;
  r.keep_ms := coalesce(keep_ms, -1);
  r.attempt := 0;
  r.tries := 0;
  r.fence := coalesce(before.fence, 0);
  r.queued := false;
  r.state := 'pending';
  -- As the library's first revision: one that no earlier row of this key can have had.
  r.rev := coalesce(before.rev, at * 4096 + floor(random() * 4096)::bigint - 1);
  r.doc := @._doc('', NULL, '{}', CASE WHEN of_version <> 1 THEN @._with(rest, 'version', to_json(of_version)) ELSE rest END);
  RETURN r;
END`,

  // The input and how long it is kept; the rest stays.
  `FUNCTION @._renewed(r @.records, guarded text, loose text, fields text, body text, longest bigint, ask_keep boolean) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  own bigint := @._keep(r);
  rest json := @._with(@._rest(r.doc), 'keepMs', NULL);
BEGIN
  r.doc := @._doc(guarded, loose, fields, rest);
  r.input := body;
  r.keep_ms := coalesce(CASE WHEN NOT ask_keep THEN own WHEN own IS NULL OR longest IS NULL THEN NULL ELSE greatest(own, longest) END, -1);
  RETURN r;
END`,

  `FUNCTION @._taken(r @.records, to_state text, by_holder text, lease_ms bigint, new_round boolean, at bigint) RETURNS @.records LANGUAGE plpgsql AS
BEGIN
  IF to_state = 'sent' THEN
    r.sent_mark := CASE WHEN r.first_sent_at IS NULL THEN '${SAME_MARK}' ELSE r.sent_mark END;
    r.first_sent_at := coalesce(r.first_sent_at, at);
    r.last_sent_at := at;
  END IF;
  r.state := to_state;
  r.attempt := r.attempt + 1;
  r.fence := r.fence + 1;
  r.tries := CASE WHEN new_round THEN 1 ELSE r.tries + 1 END;
  r.holder := by_holder;
  r.lease_until := at + lease_ms;
  r.lease_epoch := NULL;
  r.updated_at := at;
  r.expires_at := NULL;
  r.fate := NULL;
  RETURN r;
END`,

  // Pending from due_at on, with nothing left of attempts that surely sent nothing.
  `FUNCTION @._idle(r @.records, due_at bigint, error json, at bigint) RETURNS @.records LANGUAGE plpgsql AS
BEGIN
  r.state := 'pending';
  r.updated_at := at;
  r.lease_until := NULL;
  r.lease_epoch := NULL;
  r.first_sent_at := NULL;
  r.last_sent_at := NULL;
  r.sent_mark := NULL;
  r.expires_at := NULL;
  r.draft := NULL;
  r.fate := @._with(('{"dueAt":' || due_at || '}')::json, 'error', error)::text;
  RETURN r;
END`,

  `FUNCTION @._doubtful(r @.records, why text, error json, at bigint) RETURNS @.records LANGUAGE plpgsql AS
BEGIN
  r.state := 'unknown';
  r.updated_at := at;
  r.lease_until := NULL;
  r.lease_epoch := NULL;
  r.fate := @._with(json_build_object('doubtSince', at, 'doubtMark', json_build_object('at', at, 'epoch', ''), 'why', why), 'error', error)::text;
  RETURN r;
END`,

  `FUNCTION @._lapsed(r @.records, at bigint) RETURNS @.records LANGUAGE plpgsql AS
BEGIN
  r.doc := @._redoc(r.doc, @._noted(r, 'lapse', 'unknown', at, NULL, NULL));
  RETURN @._doubtful(r, '${LAPSED}', NULL, at);
END`,

  `FUNCTION @._settled(r @.records, to_state text, result text, error json, final boolean, at bigint) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  own bigint := @._keep(r);
  class bigint;
  -- What it failed for may still be made good: it is forgotten only after it was done.
  endless boolean := to_state = 'failed' AND coalesce((@._rest(r.doc) -> 'terms' ->> 'keptUntilDone')::boolean, false)
    AND error ->> 'code' IS DISTINCT FROM '${NO_LONGER_NEEDED}';
  rest json := @._with(@._with(@._rest(r.doc), 'doubted', NULL), 'keepMs', NULL);
BEGIN
  r.state := to_state;
  r.updated_at := at;
  r.lease_until := NULL;
  r.lease_epoch := NULL;
  r.sent_mark := NULL;
  r.result := result;
  r.provider_id := NULL;
  r.expires_at := CASE WHEN NOT endless THEN at + own END;
  IF to_state = 'failed' THEN
    r.first_sent_at := NULL;
    r.last_sent_at := NULL;
    r.draft := NULL;
  END IF;
  class := CASE WHEN own IS NULL THEN -1 WHEN endless OR at >= r.created_at THEN own ELSE greatest(0, r.expires_at - r.created_at) END;
  r.keep_ms := class;
  r.doc := @._redoc(r.doc, CASE WHEN class <> coalesce(own, -1) THEN @._with(rest, 'keepMs', to_json(own)) ELSE rest END);
  r.fate := @._with(CASE WHEN final THEN '{"final":true}'::json END, 'error', error)::text;
  RETURN r;
END`,

  // A settled row, known for so much longer from now on (core's retention.ts). When it was settled stays.
  `FUNCTION @._known_for(r @.records, left_ms bigint, at bigint) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  own bigint := greatest(@._keep(r), left_ms);
  rest json := @._with(@._rest(r.doc), 'keepMs', NULL);
BEGIN
  r.fate := @._with(r.fate::json, 'settledAt', to_json(coalesce((r.fate::json ->> 'settledAt')::bigint, r.updated_at)))::text;
  r.updated_at := at;
  r.expires_at := at + left_ms;
  r.keep_ms := CASE WHEN r.expires_at >= r.created_at + own THEN own ELSE greatest(0, r.expires_at - r.created_at) END;
  r.doc := @._redoc(r.doc, CASE WHEN r.keep_ms <> own THEN @._with(rest, 'keepMs', to_json(own)) ELSE rest END);
  RETURN r;
END`,

  // Why somebody may look for the row, and since when: what the indexes of due work, doubts and dead letters hold.
  `FUNCTION @._stored(r @.records, at bigint) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  due bigint;
  urgent bigint;
BEGIN
  r.rev := r.rev + 1;
  IF r.state = 'pending' THEN
    due := (r.fate::json ->> 'dueAt')::bigint;
    urgent := coalesce((@._rest(r.doc) -> 'terms' ->> 'priority')::bigint, 0);
    r.attention := CASE WHEN r.queued THEN 'queued' ELSE 'waiting' END;
    r.attention_at := CASE WHEN due > r.updated_at THEN due ELSE due - urgent * ${PRIORITY_STEP_MS} END;
  ELSIF r.state IN ('unknown', 'failed') THEN
    r.attention := r.state;
    r.attention_at := coalesce((r.fate::json ->> CASE r.state WHEN 'failed' THEN 'settledAt' ELSE 'doubtSince' END)::bigint, r.updated_at);
  ELSIF r.lease_until IS NOT NULL AND ((r.queued AND r.state = 'claimed') OR r.created_at < at - ${YOUNG_MS}) THEN
    r.attention := '${LEASED}';
    r.attention_at := r.created_at;
  ELSE
    r.attention := NULL;
    r.attention_at := NULL;
  END IF;
  RETURN r;
END`,

  // The row is locked by the caller.
  `FUNCTION @._store(given @.records, at bigint) RETURNS @.records LANGUAGE plpgsql AS
DECLARE
  r @.records := @._stored(given, at);
BEGIN
  UPDATE @.records t SET rev = r.rev, created_at = r.created_at, keep_ms = r.keep_ms, first_sent_at = r.first_sent_at, last_sent_at = r.last_sent_at,
    attempt = r.attempt, fence = r.fence, tries = r.tries, queued = r.queued, action = r.action, scope = r.scope, doc = r.doc, input = r.input,
    draft = r.draft, holder = r.holder, updated_at = r.updated_at, lease_until = r.lease_until, attention_at = r.attention_at,
    expires_at = r.expires_at, state = r.state, lease_epoch = r.lease_epoch, sent_mark = r.sent_mark, attention = r.attention, fate = r.fate, result = r.result,
    agent = r.agent, provider_id = r.provider_id
  WHERE t.key = r.key AND t.tenant = r.tenant;
  RETURN r;
END`,

  // Wakes those who wait for the record, and idle workers where it is due, on the library's channel (stores/postgres/wake.ts). In the
  // caller's transaction: heard at its commit.
  `FUNCTION @._ring(r @.records, let_go boolean) RETURNS void LANGUAGE plpgsql AS
DECLARE
  ids text[] := CASE WHEN let_go THEN ARRAY[left(encode(r.key, 'hex'), 16)] ELSE '{}' END;
  bell text;
BEGIN
  IF current_setting('nevertwice.notify', true) = 'off' THEN
    RETURN;
  END IF;
  IF r.state = 'pending' AND r.queued AND (r.fate::json ->> 'dueAt')::bigint <= r.updated_at THEN
    FOREACH bell IN ARRAY ARRAY[jsonb_build_array(r.action)::text, CASE WHEN r.tenant <> '' THEN jsonb_build_array(r.action, r.tenant)::text END] LOOP
      CONTINUE WHEN bell IS NULL;
      bell := substr(@._key_text(@._intent('', 'nevertwice.due', 1, NULL, bell::jsonb, NULL)), 5);
      ids := ids || left('00' || encode(convert_to(bell, 'UTF8'), 'hex'), 16);
    END LOOP;
  END IF;
  IF ids <> '{}' THEN
    PERFORM pg_notify('nevertwice_' || left(encode(sha256(convert_to(m.value || ' ' || @schema, 'UTF8')), 'hex'), 24), 'moved ' || array_to_string(ids, ','))
    FROM @.meta m WHERE m.name = 'ledger_id';
  END IF;
END`,

  // A payload as JSON, where it is one that jsonb can hold.
  `FUNCTION @._json(value text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS
BEGIN
  IF value IS NULL OR left(value, 1) = '!' OR left(value, 6) = 'ntseal' THEN
    RETURN NULL;
  END IF;
  RETURN value::jsonb;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END`,

  // How a record reads to somebody who does not hold it (core's outcome.ts).
  `FUNCTION @._outcome(r @.records, at bigint) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  key text := @._key_text(r.key);
  fate json := coalesce(r.fate, '{}')::json;
  error jsonb := coalesce((fate ->> 'error')::jsonb, 'null');
BEGIN
  IF @._over(r, at) THEN
    RETURN jsonb_build_object('status', 'absent', 'key', key);
  END IF;
  CASE
    WHEN r.state = 'confirmed' THEN
      RETURN jsonb_build_object('status', 'done', 'key', key, 'result', @._json(r.result), 'attempt', r.attempt, 'at', coalesce((fate ->> 'settledAt')::bigint, r.updated_at))
        || CASE WHEN r.result = '!${(NO_RESULT as { omitted: string }).omitted}' THEN '{}' WHEN left(r.result, 1) = '!' THEN jsonb_build_object('resultOmitted', substr(r.result, 2))
             WHEN left(r.result, 6) = 'ntseal' THEN '{"resultOmitted":"it is sealed, and SQL has no key"}' ELSE '{}' END;
    WHEN r.state = 'failed' THEN
      RETURN jsonb_build_object('status', 'failed', 'key', key, 'error', error, 'final', coalesce((fate ->> 'final')::boolean, false));
    WHEN r.state = 'unknown' OR (r.state = 'sent' AND NOT @._alive(r, at)) THEN
      RETURN jsonb_build_object('status', 'unknown', 'key', key, 'since', coalesce((fate ->> 'doubtSince')::bigint, r.last_sent_at),
        'attempt', r.attempt, 'why', coalesce(fate ->> 'why', '${LAPSED}'));
    WHEN r.state IN ('claimed', 'sent') AND @._alive(r, at) THEN
      RETURN jsonb_build_object('status', 'in_flight', 'key', key, 'since', coalesce(r.last_sent_at, r.updated_at), 'until', round(r.lease_until));
    WHEN r.queued THEN
      RETURN jsonb_build_object('status', 'queued', 'key', key, 'dueAt', coalesce((fate ->> 'dueAt')::bigint, round(r.lease_until)::bigint, r.created_at))
        || jsonb_strip_nulls(jsonb_build_object('givesUpAt', (@._rest(r.doc) -> 'terms' ->> 'givesUpAt')::bigint));
    ELSE
      RETURN jsonb_build_object('status', 'failed', 'key', key, 'error', error, 'final', false, 'retryAt', coalesce((fate ->> 'dueAt')::bigint, r.updated_at));
  END CASE;
END`,
];
