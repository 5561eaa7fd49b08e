/** When work that a SQL caller settles as not sent is tried again, and when it is given up: core's retry.ts, with its defaults. */
import { formatDuration } from "../../../core/duration.ts";
import { resolveRetry } from "../../../core/retry.ts";

const { queued, ...direct } = resolveRetry(undefined, "the SQL functions");
const QUEUED_FOR_MS = queued.forMs as number;

export const RETRY_FUNCTIONS: readonly string[] = [
  `FUNCTION @._iso(ms bigint) RETURNS text LANGUAGE sql AS
SELECT to_char(to_timestamp(ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,

  // What follows a try that surely sent nothing. "due" null: none follows, and "because" says why, if not for their number.
  // "gives_up" is to be kept in the record.
  `FUNCTION @._next_try(r @.records, retry_after interval, at bigint, OUT due bigint, OUT gives_up bigint, OUT because text) LANGUAGE plpgsql AS
DECLARE
  asked bigint := CASE WHEN retry_after IS NOT NULL THEN @._ms(retry_after, 'retry_after') END;
  terms json := @._rest(r.doc) -> 'terms';
  not_after bigint := (terms ->> 'notAfter')::bigint;
  ends bigint;
BEGIN
  IF r.tries >= (CASE WHEN r.queued THEN ${queued.attempts} ELSE ${direct.attempts} END) THEN
    RETURN;
  ELSIF NOT r.queued THEN
    due := at + greatest(coalesce(asked, 0), round(random() * least(${direct.maxBackoffMs}, ${direct.backoffMs} * 2.0 ^ least(30, greatest(0, r.tries - 1)))));
    RETURN;
  END IF;
  due := at + greatest(coalesce(asked, 0), round((0.5 + random() / 2) * least(${queued.maxBackoffMs}, ${queued.backoffMs} * greatest(1, r.tries))));
  IF not_after IS NOT NULL THEN
    -- Not begun after its deadline: there it is put aside as expired, and not a pause later.
    due := greatest(at, least(due, not_after));
    RETURN;
  END IF;
  ends := coalesce((terms ->> 'givesUpAt')::bigint, at + ${QUEUED_FOR_MS});
  IF at >= ends THEN
    because := format('given up after ${formatDuration(QUEUED_FOR_MS)} of tries, at attempt %s', r.attempt);
    due := NULL;
  ELSIF at + asked > ends THEN
    because := format('given up: the next try was asked for not before %s, and its tries end at %s', @._iso(at + asked), @._iso(ends));
    due := NULL;
  ELSE
    -- The last try is made when the time is over, not a pause before that.
    due := least(due, ends);
    gives_up := ends;
  END IF;
END`,
];
