import { describe, expect, it } from "vitest";
import { wayOut } from "./way-out.ts";

const THROWS = /`throw notSent\(error\)`.*`throw rejected\(error\)`/;
const CLASSIFY = /`classify: \(error\) =>/;
const RETRY = /`doubt: "retry"`/;
const TOOLS = /tools: \{/;

describe("the line to add for an error that nobody classified", () => {
  it.each(["sequence:onboarding", "job:report"])("%s has no classify and is no tool", (name) => {
    const line = wayOut(name, "action");
    expect(line).toMatch(THROWS);
    expect(line).toMatch(RETRY);
    expect(line).not.toMatch(CLASSIFY);
    expect(line).not.toMatch(TOOLS);
  });

  it("a step and an action have classify, and are no tools", () => {
    for (const name of ["step:onboard", "send_mail"]) {
      const line = wayOut(name, "action");
      expect(line).toMatch(THROWS);
      expect(line).toMatch(RETRY);
      expect(line).toMatch(CLASSIFY);
      expect(line).not.toMatch(TOOLS);
    }
  });

  it("a guarded tool has the option errors", () => {
    expect(wayOut("send mail", "tool")).toContain('`tools: { "send mail": { errors: "not-done" } }`');
  });

  it("a tool of the proxy has a config, and no code", () => {
    const line = wayOut("slow/pay_invoice", "proxy");
    expect(line).toContain('"tools": { "pay_invoice": { "errors": "not-done" } }');
    expect(line).not.toMatch(/throw|classify|slow/);
    expect(wayOut("slow/pay_invoice", "unknown")).toContain('config: "tools": { "pay_invoice": { "errors"');
  });

  it("of a record alone it is not known whether a plain action is a tool's: both, each by its name", () => {
    const line = wayOut("send_mail", "unknown");
    expect(line).toMatch(CLASSIFY);
    expect(line).toContain(
      "For a guarded tool whose errors all mean that nothing was done, add its option: `tools: { send_mail:",
    );
    expect(wayOut("step:onboard", "unknown")).not.toMatch(TOOLS);
  });
});
