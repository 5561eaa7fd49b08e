/**
 * What SQL callers use: enqueue, claim, take, settle and the rest. They run with the rights of the ledger's owner and a
 * pinned search_path; who may call them is granted. `@.` is the schema.
 */
import { LONGEST_DURATION_MS } from "../../../core/duration.ts";
import { groupsOf, lapsed as lapsedRows, leasedRows, WATCH_MS } from "../sql/groups.ts";
import { quoteText } from "../sql/schema.ts";
import { sweepStatement, watchStatement } from "../sql/sweep.ts";

export interface Entry {
  readonly name: string;
  readonly sql: string;
}

const MOST_TAKEN = 1_000;

const INTENT = "scope text DEFAULT NULL, version bigint DEFAULT 1, tenant text DEFAULT NULL";
const CLAIM = `action text, parts jsonb, payload jsonb DEFAULT NULL, holder text DEFAULT NULL, lease interval DEFAULT '5 minutes', keep interval DEFAULT NULL, free text[] DEFAULT NULL, ${INTENT}, agent text DEFAULT NULL`;
const SETTLE =
  "outcome text, result jsonb DEFAULT NULL, holder text DEFAULT NULL, fence integer DEFAULT NULL, error text DEFAULT NULL, retry_after interval DEFAULT NULL";

export function entries(schema: string): readonly Entry[] {
  const tables = { table: `${schema}.records`, watch: `${schema}.watch` };
  const lapsed = leasedRows(tables, "r.key, r.tenant", `r.state = 'sent' AND ${lapsedRows("$1")}`, "$1");
  const watching = watchStatement(tables, 0).text;
  const removal = sweepStatement(tables, { limit: 0, now: 0, tenant: undefined, from: 0 }).text;
  return [
    {
      name: "key",
      sql: `FUNCTION @.key(action text, parts jsonb, ${INTENT}) RETURNS text LANGUAGE plpgsql AS
BEGIN
  PERFORM @._check(@made_for);
  RETURN @._key_text(@._intent(coalesce(@._tenant(tenant), ''), action, version, scope, parts, @._secret()));
END`,
    },
    {
      name: "enqueue",
      sql: `FUNCTION @.enqueue(action text, parts jsonb, payload jsonb DEFAULT NULL, due_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, expires_at timestamptz DEFAULT NULL, priority integer DEFAULT 0, keep interval DEFAULT NULL, free text[] DEFAULT NULL, ${INTENT}, agent text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  secret bytea;
  id bytea;
  print record;
  at bigint;
  due bigint;
  until bigint := floor(extract(epoch FROM expires_at) * 1000)::bigint;
  keep_ms bigint := @._ms(keep, 'keep');
  me text := replace(gen_random_uuid()::text, '-', '');
  found_row @.records;
  is_there boolean;
  r @.records;
  terms json;
  rest json;
  known bigint;
  left_ms bigint;
  other record;
BEGIN
  PERFORM @._check(@made_for);
  tenant := coalesce(@._tenant(tenant), '');
  IF due_at IS NOT NULL AND delay IS NOT NULL THEN
    PERFORM @._fail('CONFIG', 'due_at and delay say the same thing twice. Give one of them.');
  ELSIF priority IS NULL OR priority NOT BETWEEN 0 AND 9 THEN
    PERFORM @._fail('CONFIG', format('priority is %s; it takes a whole number from 0 to 9.', coalesce(priority::text, 'null')));
  ELSIF due_at = 'infinity' OR expires_at IN ('infinity', '-infinity') THEN
    PERFORM @._fail('CONFIG', 'due_at and expires_at take a moment. Leave them out for none.');
  END IF;
  agent := @._agent(agent);
  secret := @._secret();
  PERFORM @._free_name(action);
  id := @._intent(tenant, action, version, scope, parts, secret);
  print := @._print(payload, free, secret);
  terms := @._with(CASE WHEN until IS NOT NULL THEN json_build_object('notAfter', until) END, 'priority', CASE WHEN priority > 0 THEN to_json(priority) END);
  FOR turn IN 1..5 LOOP
    found_row := @._row(id, tenant, action, true);
    is_there := found_row.state IS NOT NULL;
    id := found_row.key;
    action := found_row.action;
    at := @._now();
    due := coalesce(floor(extract(epoch FROM due_at) * 1000)::bigint, at + CASE WHEN delay IS NULL THEN 0 ELSE @._ms(delay, 'delay') END);
    -- Until its deadline it may be enqueued again as the same intent, so it is known until then.
    known := CASE WHEN keep_ms IS NULL AND is_there AND NOT @._over(found_row, at) THEN @._keep(found_row) ELSE keep_ms END;
    left_ms := CASE WHEN until IS NOT NULL THEN least(until - at, ${LONGEST_DURATION_MS}) END;
    known := CASE WHEN known IS NOT NULL THEN greatest(known, left_ms) END;
    IF NOT is_there OR @._over(found_row, at) THEN
      r := @._begin(found_row, id, tenant, action, scope, version, known, at, print.guarded);
      r := @._renewed(r, print.guarded, print.loose, print.fields, print.body, NULL, false);
      r.doc := @._redoc(r.doc, @._with(@._rest(r.doc), 'terms', terms));
      r.queued := true;
      r.holder := me;
      r.agent := agent;
      r.fate := '{"dueAt":' || due || '}';
      -- A new row, so that nothing of the old one is left in it.
      DELETE FROM @.records t WHERE is_there AND t.key = id AND t.tenant = tenant;
      r := @._stored(r, at);
      INSERT INTO @.records SELECT (r).* ON CONFLICT DO NOTHING;
      CONTINUE WHEN NOT FOUND;
      PERFORM @._ring(r, false);
      RETURN jsonb_build_object('key', @._key_text(id), 'created', true, 'state', 'pending');
    END IF;
    EXIT;
  END LOOP;
  IF NOT is_there OR @._over(found_row, at) THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'the record kept changing under this call. Call again.';
  END IF;
  r := found_row;
  rest := @._rest(r.doc);
  other := @._other(r, print.guarded, print.loose, print.fields, free, at);
  IF other.meets = 'conflict' THEN
    PERFORM @._fail('KEY_CONFLICT', format('%s (%s): the same key was used before with another input (differs in: %s). Nothing was queued. If this is another intent, put what makes it one into parts; if the field may vary, name it in free.', action, @._key_text(id), array_to_string(other.differs, ', ')));
  ELSIF other.meets = 'in-doubt' THEN
    PERFORM @._fail('OUTCOME_UNKNOWN', format('%s (%s): an earlier attempt may or may not have happened, and this input differs in: %s. Nothing was queued. Look at the provider, then settle it: nevertwice resolve %s', action, @._key_text(id), array_to_string(other.differs, ', '), @._key_text(id)));
  END IF;
  IF (r.state = 'failed' OR (r.state = 'pending' AND NOT r.queued) OR coalesce(other.meets = 'new-round', false))
    AND NOT (r.state = 'failed' AND @._final(r) AND other.meets IS NULL)
    AND NOT (r.state = 'failed' AND r.fate::json -> 'error' ->> 'code' IS NOT DISTINCT FROM 'EXPIRED' AND until IS NOT NULL AND until <= at) THEN
    IF rest -> 'terms' ->> 'line' IS NOT NULL THEN
      PERFORM @._fail('CONFIG', format('%s (%s) belongs to an order (orderKey), which SQL does not keep. Nothing was queued. Enqueue it with the library.', action, @._key_text(id)));
    END IF;
    IF other.meets IS NOT NULL THEN
      r.doc := @._redoc(r.doc, @._noted(r, 'corrected', 'pending', at, NULL, NULL, @._replaced(r)));
    END IF;
    -- It never happened: queued anew, with this input and a new round of tries.
    r := @._renewed(@._idle(r, due, NULL, at), print.guarded, print.loose, print.fields, print.body, known, true);
    r.doc := @._redoc(r.doc, @._with(@._rest(r.doc), 'terms', terms));
    r.queued := true;
    r.tries := 0;
    r.holder := me;
    r.agent := agent;
    r := @._store(r, at);
    PERFORM @._ring(r, false);
  ELSIF r.state NOT IN ('confirmed', 'failed') THEN
    -- Known for longer, with a later deadline, and from now on a worker's business; nothing else changes.
    found_row := r;
    r.queued := true;
    r.keep_ms := CASE WHEN r.keep_ms >= 0 THEN greatest(r.keep_ms, known) ELSE r.keep_ms END;
    IF (rest -> 'terms' ->> 'notAfter')::bigint < until THEN
      r.doc := @._redoc(r.doc, @._with(rest, 'terms', @._with(rest -> 'terms', 'notAfter', to_json(until))));
    END IF;
    IF r IS DISTINCT FROM found_row THEN
      r := @._store(r, at);
    END IF;
  ELSIF r.expires_at < at + left_ms THEN
    r := @._store(@._known_for(r, left_ms, at), at);
  END IF;
  RETURN jsonb_build_object('key', @._key_text(id), 'created', false, 'state', r.state)
    || CASE WHEN r.state = 'confirmed' THEN jsonb_build_object('result', @._json(r.result)) ELSE '{}' END;
END`,
    },
    {
      name: "try_claim",
      sql: `FUNCTION @.try_claim(${CLAIM}) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  secret bytea;
  id bytea;
  print record;
  at bigint;
  me text := coalesce(holder, replace(gen_random_uuid()::text, '-', ''));
  lease_ms bigint := @._ms(lease, 'lease');
  keep_ms bigint := @._ms(keep, 'keep');
  found_row @.records;
  is_there boolean;
  inserted boolean := false;
  r @.records;
  rest json;
  other record;
  differing jsonb := '{}';
BEGIN
  PERFORM @._check(@made_for);
  tenant := coalesce(@._tenant(tenant), '');
  IF lease IS NULL OR @._blank(me) THEN
    PERFORM @._fail('CONFIG', 'lease takes an interval, and holder a text that is not blank (a random id for this attempt).');
  END IF;
  agent := @._agent(agent);
  secret := @._secret();
  PERFORM @._free_name(action);
  id := @._intent(tenant, action, version, scope, parts, secret);
  print := @._print(payload, free, secret);
  FOR turn IN 1..5 LOOP
    found_row := @._row(id, tenant, action, true);
    is_there := found_row.state IS NOT NULL;
    id := found_row.key;
    action := found_row.action;
    at := @._now();
    EXIT WHEN is_there AND NOT @._over(found_row, at);
    r := @._begin(found_row, id, tenant, action, scope, version, keep_ms, at, print.guarded);
    r.agent := agent;
    r := @._renewed(r, print.guarded, print.loose, print.fields, print.body, NULL, false);
    r := @._taken(r, 'sent', me, lease_ms, true, at);
    -- A new row, so that nothing of the old one is left in it.
    DELETE FROM @.records t WHERE is_there AND t.key = id AND t.tenant = tenant;
    r := @._stored(r, at);
    INSERT INTO @.records SELECT (r).* ON CONFLICT DO NOTHING;
    inserted := FOUND;
    EXIT WHEN inserted;
  END LOOP;
  IF NOT inserted AND is_there AND NOT @._over(found_row, at) THEN
    r := found_row;
    rest := @._rest(r.doc);
    other := @._other(r, print.guarded, print.loose, print.fields, free, at);
    IF other.meets = 'conflict' THEN
      RETURN jsonb_build_object('status', 'conflict', 'key', @._key_text(id), 'differs', to_jsonb(other.differs));
    ELSIF other.meets = 'in-doubt' THEN
      differing := jsonb_build_object('differs', to_jsonb(other.differs));
    END IF;
    IF r.state = 'sent' AND NOT @._alive(r, at) THEN
      r := @._store(@._lapsed(r, at), at);
      PERFORM @._ring(r, true);
      RETURN @._outcome(r, at) || differing;
    END IF;
    -- The same attempt asks again: its answer got lost.
    IF NOT (r.state = 'sent' AND r.holder = holder AND @._alive(r, at)) IS TRUE THEN
      IF r.state IN ('confirmed', 'unknown', 'sent') OR (r.state = 'claimed' AND @._alive(r, at))
        OR (r.state = 'pending' AND r.queued AND (r.fate::json ->> 'dueAt')::bigint > at)
        OR (r.state = 'failed' AND @._final(r) AND other.meets IS NULL)
        OR rest -> 'terms' ->> 'line' IS NOT NULL THEN
        RETURN @._outcome(r, at) || differing;
      END IF;
      IF other.meets IS NOT NULL THEN
        r.doc := @._redoc(r.doc, @._noted(r, 'corrected', 'sent', at, NULL, NULL, @._replaced(r)));
        rest := @._rest(r.doc);
      END IF;
      -- Nothing was sent under this record, so the newer input is the one to send.
      IF r.state = 'failed' THEN
        r.doc := @._redoc(r.doc, @._with(rest, 'terms', @._with(@._with(rest -> 'terms', 'notAfter', NULL), 'givesUpAt', NULL)));
      END IF;
      r := @._acted(@._renewed(r, print.guarded, print.loose, print.fields, print.body, keep_ms, keep_ms IS NOT NULL), agent, at);
      r := @._store(@._taken(r, 'sent', me, lease_ms, true, at), at);
    END IF;
  ELSIF NOT inserted THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'the record kept changing under this call. Call again.';
  END IF;
  RETURN jsonb_build_object('status', 'claimed', 'key', @._key_text(id), 'attempt', r.attempt, 'fence', r.fence, 'holder', r.holder, 'until', round(r.lease_until));
END`,
    },
    {
      name: "claim",
      sql: `FUNCTION @.claim(${CLAIM}) RETURNS boolean LANGUAGE sql AS
SELECT @.try_claim(action, parts, payload, holder, lease, keep, free, scope, version, tenant, agent) ->> 'status' = 'claimed'`,
    },
    {
      name: "status",
      sql: `FUNCTION @.status(action text, parts jsonb, ${INTENT}) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  id bytea;
  r @.records;
BEGIN
  PERFORM @._check(@made_for);
  tenant := coalesce(@._tenant(tenant), '');
  id := @._intent(tenant, action, version, scope, parts, @._secret());
  r := @._row(id, tenant, action, false);
  RETURN CASE WHEN r.state IS NOT NULL THEN @._outcome(r, @._now()) ELSE jsonb_build_object('status', 'absent', 'key', @._key_text(r.key)) END;
END`,
    },
    {
      name: "take",
      sql: `FUNCTION @.take(actions text[], most integer DEFAULT 1, lease interval DEFAULT '5 minutes', mark text DEFAULT 'now', only_tenant text DEFAULT NULL)
RETURNS TABLE (key text, action text, payload jsonb, attempt integer, tries integer, fence integer, holder text, lease_until timestamptz, created_at timestamptz, due_at timestamptz, scope text, version bigint, tenant text, agent text) LANGUAGE plpgsql AS
DECLARE
  at bigint := @._now();
  lease_ms bigint := @._ms(lease, 'lease');
  due bigint;
  r @.records;
BEGIN
  PERFORM @._check(@made_for);
  IF lease IS NULL OR most IS NULL OR most NOT BETWEEN 1 AND ${MOST_TAKEN} OR mark IS NULL OR mark NOT IN ('now', 'manual') THEN
    PERFORM @._fail('CONFIG', 'most takes 1 to ${MOST_TAKEN}, lease an interval, and mark ''now'' or ''manual''.');
  ELSIF actions IS NULL OR cardinality(actions) = 0 THEN
    PERFORM @._fail('CONFIG', 'actions: name the actions that this worker can run, such as ARRAY[''send_welcome''].');
  END IF;
  only_tenant := @._tenant(only_tenant);
  FOR r IN
    WITH queue AS (
      SELECT t.* FROM @.records t WHERE t.attention = 'queued' AND t.attention_at <= at AND t.queued AND t.state = 'pending'
        AND t.action = ANY(actions) AND (only_tenant IS NULL OR t.tenant = only_tenant) AND (t.expires_at IS NULL OR t.expires_at > at)
        AND @._takeable(t)
      ORDER BY t.attention_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED),
    abandoned AS (
      SELECT t.* FROM @.records t WHERE t.attention = 'leased' AND t.state = 'claimed' AND t.queued AND (t.lease_until <= at OR t.lease_epoch IS NOT NULL)
        AND t.action = ANY(actions) AND (only_tenant IS NULL OR t.tenant = only_tenant) AND @._takeable(t)
      LIMIT most FOR NO KEY UPDATE SKIP LOCKED)
    SELECT b.* FROM (SELECT q.* FROM queue q UNION ALL SELECT l.* FROM abandoned l) b ORDER BY b.attention_at LIMIT most
  LOOP
    due := (r.fate::json ->> 'dueAt')::bigint;
    IF (@._rest(r.doc) -> 'terms' ->> 'notAfter')::bigint <= at THEN
      r.attempt := r.attempt + 1;
      r.fence := r.fence + 1;
      r.doc := @._redoc(r.doc, @._noted(r, 'not-sent', 'failed', at, NULL, 'it was not begun before its deadline'));
      r := @._store(@._settled(r, 'failed', NULL, json_build_object('name', 'Expired', 'message', 'it was not begun before its deadline', 'code', 'EXPIRED'), false, at), at);
      CONTINUE;
    END IF;
    r := @._store(@._taken(r, CASE WHEN mark = 'now' THEN 'sent' ELSE 'claimed' END, replace(gen_random_uuid()::text, '-', ''), lease_ms, false, at), at);
    key := @._key_text(r.key);
    action := r.action;
    payload := @._json(r.input);
    attempt := r.attempt;
    tries := r.tries;
    fence := r.fence;
    holder := r.holder;
    lease_until := to_timestamp(r.lease_until / 1000.0);
    created_at := to_timestamp(r.created_at / 1000.0);
    due_at := to_timestamp(due / 1000.0);
    scope := r.scope;
    version := coalesce((@._rest(r.doc) ->> 'version')::bigint, 1);
    tenant := r.tenant;
    agent := r.agent;
    RETURN NEXT;
  END LOOP;
END`,
    },
    {
      name: "sent",
      sql: `FUNCTION @.sent(key text, holder text, fence integer DEFAULT NULL, lease interval DEFAULT '5 minutes', tenant text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS
DECLARE
  at bigint;
  r @.records;
BEGIN
  PERFORM @._check(@made_for);
  r := @._held(key, @._tenant(tenant));
  at := @._now();
  IF NOT coalesce(r.state IN ('claimed', 'sent') AND r.holder = holder AND (fence IS NULL OR r.fence = fence) AND @._alive(r, at), false) THEN
    RETURN false;
  END IF;
  IF r.state = 'claimed' THEN
    r.sent_mark := CASE WHEN r.first_sent_at IS NULL THEN '=' ELSE r.sent_mark END;
    r.first_sent_at := coalesce(r.first_sent_at, at);
    r.last_sent_at := at;
    r.state := 'sent';
    r.updated_at := at;
    r.lease_until := at + @._ms(lease, 'lease');
    PERFORM @._store(r, at);
  END IF;
  RETURN true;
END`,
    },
    {
      name: "heartbeat",
      sql: `FUNCTION @.heartbeat(key text, holder text, fence integer DEFAULT NULL, lease interval DEFAULT '5 minutes', tenant text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS
DECLARE
  at bigint;
  r @.records;
BEGIN
  PERFORM @._check(@made_for);
  r := @._held(key, @._tenant(tenant));
  at := @._now();
  IF NOT coalesce(r.state IN ('claimed', 'sent') AND r.holder = holder AND (fence IS NULL OR r.fence = fence) AND @._alive(r, at), false) THEN
    RETURN false;
  END IF;
  r.updated_at := at;
  r.lease_until := at + @._ms(lease, 'lease');
  PERFORM @._store(r, at);
  RETURN true;
END`,
    },
    {
      name: "settle",
      sql: `FUNCTION @.settle(key text, ${SETTLE}, tenant text DEFAULT NULL, agent text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS
BEGIN
  PERFORM @._check(@made_for);
  RETURN @._settle(@._held(key, @._tenant(tenant)), outcome, result, holder, fence, error, retry_after, agent);
END`,
    },
    {
      name: "settle_claim",
      sql: `FUNCTION @.settle_claim(action text, parts jsonb, ${SETTLE}, ${INTENT}, agent text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  id bytea;
BEGIN
  PERFORM @._check(@made_for);
  tenant := coalesce(@._tenant(tenant), '');
  id := @._intent(tenant, action, version, scope, parts, @._secret());
  RETURN @._settle(@._held(@._key_text(id), tenant), outcome, result, holder, fence, error, retry_after, agent);
END`,
    },
    {
      name: "sweep",
      // The library's own statements: which claims may have been left, and what is past its keep.
      sql: `FUNCTION @.sweep(most integer DEFAULT 1000) RETURNS jsonb LANGUAGE plpgsql AS
DECLARE
  at bigint := @._now();
  left_behind record;
  r @.records;
  doubts integer := 0;
  removed bigint;
BEGIN
  PERFORM @._check(@made_for);
  IF most IS NULL OR most NOT BETWEEN 1 AND 100000 THEN
    PERFORM @._fail('CONFIG', 'most takes 1 to 100000.');
  END IF;
  PERFORM @._tenant('(every tenant)');
  FOR left_behind IN EXECUTE ${quoteText(`WITH RECURSIVE ${groupsOf(tables.table)} SELECT l.key, l.tenant FROM (${lapsed}) l LIMIT $2`)} USING at::text, most LOOP
    SELECT t.* INTO r FROM @.records t WHERE t.key = left_behind.key AND t.tenant = left_behind.tenant FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND OR r.state <> 'sent' OR @._alive(r, at);
    r := @._store(@._lapsed(r, at), at);
    PERFORM @._ring(r, true);
    doubts := doubts + 1;
  END LOOP;
  EXECUTE ${quoteText(watching)} USING (at - ${WATCH_MS})::text;
  EXECUTE ${quoteText(removal)} INTO removed USING at::text, '-1000000000000000', most::text;
  RETURN jsonb_build_object('unknown', doubts, 'removed', removed);
END`,
    },
  ];
}
