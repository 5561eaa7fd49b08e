// AWS Powertools idempotency on Redis, set up as its documentation says.
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { createClient } from "@redis/client";

export async function openPowertools(url, effect) {
  const client = await createClient({ url }).connect();
  const config = new IdempotencyConfig({});
  // What a Lambda runtime would hand in: the time left, by which it knows an attempt that died.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 60_000, awsRequestId: "bench" });
  const once = makeIdempotent(effect, { persistenceStore: new CachePersistenceLayer({ client }), config });
  return { once: (id) => once({ id }), close: () => client.destroy() };
}
