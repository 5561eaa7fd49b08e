import { describe, expect, it } from "vitest";
import { amount } from "./amount.ts";

describe("K8: amount()", () => {
  it.each([
    [10, "10.00 EUR"],
    ["10", "10.00 EUR"],
    ["10.0", "10.00 EUR"],
    [" 10.00 ", "10.00 EUR"],
    ["+10.00", "10.00 EUR"],
    ["0010", "10.00 EUR"],
    [10.5, "10.50 EUR"],
    ["EUR 10.50", "10.50 EUR"],
    ["10.50eur", "10.50 EUR"],
    ["1,234.56", "1234.56 EUR"],
    ["1.234,56", "1234.56 EUR"],
    [-5, "-5.00 EUR"],
    ["-0.00", "0.00 EUR"],
    [12345678901234567890n, "12345678901234567890.00 EUR"],
  ])("%s is %j", (given, normal) => expect(amount(given, "eur")).toBe(normal));

  it("counts the smallest units on request, by the currency's own decimals", () => {
    const minor = { unit: "minor" } as const;
    expect(amount(1050, "EUR", minor)).toBe(amount("10.50", "EUR"));
    expect(amount(5, "EUR", minor)).toBe("0.05 EUR");
    expect(amount(2480, "JPY", minor)).toBe(amount(2480, "JPY"));
    expect(amount("1500", "KWD", minor)).toBe("1.500 KWD");
    expect(amount("USD", minor)(999n)).toBe("9.99 USD");
    expect(amount("0.00000001", "BTC", { decimals: 8 })).toBe("0.00000001 BTC");
  });

  it.each([
    ["1,000", /more than one way/],
    ["10,00", /more than one way/],
    ["1.000", /3 decimals and EUR has 2/],
    [0.1 + 0.2, /17 decimals and EUR has 2/],
    [1e21, /too large/],
    [Number.NaN, /no number/],
    ["10.00 USD", /another currency than EUR/],
    ["€10", /more than one way/],
    ["ten", /no amount/],
    ["", /no amount/],
    [null, /null/],
  ])("refuses %s", (given, why) => {
    expect(() => amount(given as never, "EUR")).toThrow(why);
    expect(() => amount(given as never, "EUR")).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
  });

  it("needs a currency, and a whole number of the smallest units", () => {
    expect(() => amount("10.00")).toThrow(/no currency/);
    expect(() => amount(10, "euro")).toThrow(/three letters/);
    expect(() => amount(10.5, "EUR", { unit: "minor" })).toThrow(/has decimals/);
    expect(() => amount(10, "EUR", { unit: "cents" as never })).toThrow(/"major" or "minor"/);
  });
});
