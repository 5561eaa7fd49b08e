import { expect, it } from "vitest";
import { z } from "zod";
import { requireAnnotations } from "./annotations.ts";

it.each<[unknown, boolean]>([
  [undefined, true],
  [{ title: "Issue", readOnlyHint: false, "x-own": 1 }, true],
  [{ title: z.string() }, false],
  [z.object({ title: z.string() }), false],
  [{ type: "object" }, false],
])("annotations that are none are refused: %j", (annotations, isFine) => {
  const check = () => requireAnnotations(annotations, "here");
  if (isFine) check();
  else expect(check).toThrow(/for annotations, and the tool for one without arguments/);
});
