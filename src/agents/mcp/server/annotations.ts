/** Whether a tool's annotations are what the SDK took for them. */
import { configError } from "../../../core/errors.ts";
import { isSchema } from "../../tool/fields.ts";

/** SDK 1.x takes an object that is no shape of zod schemas for annotations, and then the tool for one without arguments. */
export function requireAnnotations(annotations: unknown, where: string): void {
  if (typeof annotations !== "object" || annotations === null) return;
  const odd = Object.entries(annotations).find(
    ([name, value]) => (typeof value === "object" && value !== null) || typeof value === "function" || name === "type",
  );
  if (odd === undefined && !isSchema(annotations)) return;
  throw configError(
    `${where}: the SDK took ${odd === undefined ? "a schema" : `{ ${odd[0]}: … }`} for annotations, and the tool for one without arguments: every call would be a repeat of the first. Give the arguments as a shape of zod schemas, { title: z.string() }, or register it with registerTool().`,
  );
}
