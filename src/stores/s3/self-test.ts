/**
 * Whether this endpoint can carry a ledger at all. Some S3-compatible servers accept If-None-Match and overwrite anyway:
 * on such a one two hosts would both win a claim. So it is tried out, on an object of its own, before the first record.
 */
import { configError } from "../../core/errors.ts";
import type { S3Client } from "./client.ts";

export async function selfTest(client: S3Client, name: string, where: string): Promise<{ conditionalDelete: boolean }> {
  const first = await client.put(name, "1", { ifNoneMatch: "*" });
  // A retry that met its own first try: the name is random, so it is ours.
  const etag = first.kind === "written" ? first.etag : (await client.get(name))?.etag;
  try {
    if (etag === undefined || etag === "") throw refused(where, "it gives out no ETags");
    const again = await client.put(name, "2", { ifNoneMatch: "*" });
    if (again.kind === "written")
      throw refused(where, "it ignores If-None-Match: an object that was there was overwritten");
    const stale = await client.put(name, "3", { ifMatch: '"00000000000000000000000000000000"' });
    if (stale.kind === "written")
      throw refused(where, "it ignores If-Match: an object that had changed was overwritten");
    const right = await client.put(name, "4", { ifMatch: etag });
    const now = await client.get(name);
    if (now?.text !== "4")
      throw refused(where, "a conditional write did not take effect, or is not seen by the next read");
    if (right.kind === "refused" && !right.retried)
      throw refused(where, "it refuses If-Match with the ETag it gave out");
    return { conditionalDelete: await deletesConditionally(client, name) };
  } finally {
    await client.remove(name, null).catch(() => false);
  }
}

async function deletesConditionally(client: S3Client, name: string): Promise<boolean> {
  const wrong = await client.remove(name, '"00000000000000000000000000000000"').catch(() => null);
  return wrong === false && (await client.get(name)) !== null;
}

function refused(where: string, why: string) {
  return configError(
    `${where} cannot carry a ledger: ${why}. Two hosts could both win the same claim. Use an object store that honours conditional writes, as Amazon S3 does, or another store.`,
  );
}
