import { randomBytes } from "node:crypto";

/** Random ids at a counter's price: one draw of 96 random bits per process, one number per claim. */
export function holderIds(): () => string {
  const prefix = `${randomBytes(12).toString("base64url")}.`;
  let count = 0;
  return () => {
    count += 1;
    return prefix + count.toString(36);
  };
}
