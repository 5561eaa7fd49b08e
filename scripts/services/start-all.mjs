// What a test run or a bench needs, at once: private servers, or the ones that the environment names.
import { openKeep } from "./keep.mjs";
import { startPgBouncer } from "./pgbouncer.mjs";
import { startPostgres } from "./postgres.mjs";
import { ensurePrograms, redisServer } from "./programs.mjs";
import { startRedis } from "./redis.mjs";
import { startRedisCluster } from "./redis-cluster.mjs";

/** Who needs which programs, and under which variable its address is known. */
const kinds = {
  postgres: { variable: "NEVERTWICE_TEST_POSTGRES", programs: ["initdb", "postgres", "pg_basebackup"] },
  pgbouncer: { variable: "NEVERTWICE_TEST_PGBOUNCER", programs: ["pgbouncer"] },
  redis: { variable: "NEVERTWICE_TEST_REDIS", programs: [redisServer] },
  cluster: { variable: "NEVERTWICE_TEST_REDIS_CLUSTER", programs: [redisServer] },
};
export const KINDS = Object.keys(kinds);

/**
 * @param {readonly string[]} [wanted]
 * @returns {Promise<{ addresses: Record<string, string>, close(): Promise<void> }>} addresses by environment variable
 */
export async function startAll(wanted = KINDS) {
  const given = givenAddresses();
  const own = KINDS.filter((kind) => isWanted(kind, wanted) && !(kinds[kind].variable in given));
  if (own.length === 0) return { addresses: given, close: async () => {} };
  ensurePrograms(own.flatMap((kind) => kinds[kind].programs));
  const keep = await openKeep();
  try {
    const parts = await Promise.all([
      startDatabases(keep, own, given),
      own.includes("redis") && startRedis(keep).then(({ url }) => ({ NEVERTWICE_TEST_REDIS: url })),
      own.includes("cluster") &&
        startRedisCluster(keep).then(({ addresses }) => ({ NEVERTWICE_TEST_REDIS_CLUSTER: addresses })),
    ]);
    return { addresses: Object.assign(given, ...parts), close: () => keep.close() };
  } catch (error) {
    await keep.close();
    throw error;
  }
}

/** PgBouncer stands in front of a PostgreSQL, so wanting it means wanting both. */
function isWanted(kind, wanted) {
  return wanted.includes(kind) || (kind === "postgres" && wanted.includes("pgbouncer"));
}

function givenAddresses() {
  const names = [...Object.values(kinds).map(({ variable }) => variable), "NEVERTWICE_TEST_POSTGRES_ADMIN"];
  return Object.fromEntries(names.filter((name) => process.env[name]).map((name) => [name, process.env[name]]));
}

async function startDatabases(keep, own, given) {
  /** @type {Record<string, string>} */
  const addresses = {};
  let url = given.NEVERTWICE_TEST_POSTGRES;
  if (own.includes("postgres")) {
    const postgres = await startPostgres(keep);
    url = postgres.url;
    addresses.NEVERTWICE_TEST_POSTGRES = url;
    addresses.NEVERTWICE_TEST_POSTGRES_ADMIN = postgres.adminUrl;
  }
  if (own.includes("pgbouncer")) addresses.NEVERTWICE_TEST_PGBOUNCER = (await startPgBouncer(keep, { url })).url;
  return addresses;
}
