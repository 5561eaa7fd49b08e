import { nevertwice } from "nevertwice";
import { describe, expect, it } from "vitest";

describe("a draft that could not be kept", () => {
  it("G3: is not run again without it, not even where retry was asked for", async () => {
    const nt = nevertwice({ store: "memory:", sweep: false });
    const drafts: unknown[] = [];
    const send = nt.action("send", {
      key: ["id"],
      doubt: "retry",
      wait: 0,
      prepare: () => "x".repeat(300 * 1024),
      run: (_: { id: string }, _context, draft: string) => {
        drafts.push(draft.length);
        throw new Error("no answer");
      },
    });
    expect((await send.attempt({ id: "1" })).status).toBe("unknown");
    expect((await send.attempt({ id: "1" })).status).toBe("unknown");
    expect(drafts).toEqual([300 * 1024]);
    await nt.close();
  });
});
