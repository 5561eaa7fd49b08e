// The key most hand-written layers derive: a digest of the action and of what identifies the intent.
import { createHash } from "node:crypto";

export function keyByHand(input) {
  return createHash("sha256")
    .update(JSON.stringify(["bench", input]))
    .digest("hex")
    .slice(0, 32);
}
