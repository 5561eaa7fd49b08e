/**
 * Amounts of money as key parts. "10", "10.00" and 10 are one amount; what can be read in two ways ("1,000", 0.1 + 0.2, a
 * number of cents taken for one of euros) is refused, because a key that guesses is wrong for somebody.
 */
import { NevertwiceError } from "../errors.ts";
import { labelled, normalised } from "./normal.ts";

export interface AmountOptions {
  /** "minor": the value counts the smallest units (cents), as payment providers take it. "major" unless given. */
  readonly unit?: "major" | "minor";
  /** For units that ISO 4217 does not list. */
  readonly decimals?: number;
}

export type AmountValue = string | number | bigint;

// ISO 4217. Our own list: the runtime's changes with its version, and a key must not.
const DECIMALS: ReadonlyMap<string, number> = new Map([
  ..."BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split(" ").map((code) => [code, 0] as const),
  ..."BHD IQD JOD KWD LYD OMR TND".split(" ").map((code) => [code, 3] as const),
  ..."CLF UYW".split(" ").map((code) => [code, 4] as const),
]);
const USUAL_DECIMALS = 2;
const MOST_DECIMALS = 18;

/** `amount("EUR")`: for a field of `key: { total: amount("EUR") }`. */
export function amount(currency: string, options?: AmountOptions): (value: AmountValue) => string;
/** `amount(i.total, "EUR")`: in a key function. The part is a text such as "10.00 EUR". */
export function amount(value: AmountValue, currency: string, options?: AmountOptions): string;
export function amount(
  first: AmountValue,
  second?: string | AmountOptions,
  options?: AmountOptions,
): string | ((value: AmountValue) => string) {
  if (typeof second === "string") return amountIn(first, unitOf(second, options));
  if (typeof first !== "string" || !/^\s*[A-Za-z]{3}\s*$/.test(first)) {
    throw invalid('there is no currency. Say which one: amount(value, "EUR"), or amount("EUR") for a field of `key`.');
  }
  const unit = unitOf(first, second);
  return labelled(
    (value: AmountValue) => amountIn(value, unit),
    `amount ${unit.currency} ${unit.decimals} ${unit.minor}`,
  );
}

interface Unit {
  readonly currency: string;
  readonly decimals: number;
  readonly minor: boolean;
}

function unitOf(currency: string, options: AmountOptions = {}): Unit {
  const code = currency.trim().toUpperCase();
  if (!/^[A-Z]{3}$/.test(code)) throw invalid('the currency must be a code of three letters, such as "EUR".');
  const { unit = "major", decimals = DECIMALS.get(code) ?? USUAL_DECIMALS } = options;
  if (unit !== "major" && unit !== "minor") throw invalid('unit takes "major" or "minor".');
  if (!Number.isInteger(decimals) || decimals < 0 || decimals > MOST_DECIMALS)
    throw invalid(`decimals takes a whole number from 0 to ${MOST_DECIMALS}.`);
  return { currency: code, decimals, minor: unit === "minor" };
}

function amountIn(value: AmountValue, unit: Unit): string {
  const { negative, whole, fraction } = digitsOf(value, unit);
  const [units, part] = unit.minor ? fromMinor(whole, fraction, unit) : fromMajor(whole, fraction, unit);
  const sign = negative && /[1-9]/.test(units + part) ? "-" : "";
  return normalised(value, `${sign}${units}${part === "" ? "" : `.${part}`} ${unit.currency}`);
}

function fromMajor(whole: string, fraction: string, { decimals, currency }: Unit): [string, string] {
  // Zeros behind the last decimal change nothing in a number. In a text, "1.000" is a thousand to half of the world.
  if (fraction.length > decimals)
    throw invalid(
      `it has ${fraction.length} decimals and ${currency} has ${decimals}. Round it where it is computed, and pass the rounded amount as text, or count the smallest units: { unit: "minor" }.`,
    );
  return [whole, fraction.padEnd(decimals, "0")];
}

function fromMinor(whole: string, fraction: string, { decimals }: Unit): [string, string] {
  if (fraction !== "")
    throw invalid('it counts the smallest units (unit: "minor"), and has decimals. Give a whole number.');
  const digits = whole.padStart(decimals + 1, "0");
  const at = digits.length - decimals;
  return [stripped(digits.slice(0, at)), digits.slice(at)];
}

interface Digits {
  readonly negative: boolean;
  readonly whole: string;
  readonly fraction: string;
}

function digitsOf(value: unknown, unit: Unit): Digits {
  if (typeof value === "bigint") return split(String(value));
  if (typeof value === "number") return digitsOfNumber(value);
  if (typeof value !== "string") {
    throw invalid(`it was given ${value === null ? "null" : `a ${typeof value}`}. Pass a text, a number or a bigint.`);
  }
  return split(plainDecimal(withoutCurrency(value.trim(), unit)));
}

/** The shortest text of a number is what was written in the source or in JSON. Beyond 2^53 and in sums it is not. */
function digitsOfNumber(value: number): Digits {
  const written = String(value);
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER && /^-?\d+(?:\.\d+)?$/.test(written)) return split(written);
  throw invalid("the number is too large, too small or no number. Pass the amount as text, or as a bigint.");
}

function withoutCurrency(given: string, { currency }: Unit): string {
  const match = /^(?:([A-Za-z]{3})\s*)?([^A-Za-z]+?)(?:\s*([A-Za-z]{3}))?$/.exec(given);
  if (match === null) throw invalid('the text is no amount. Write it as "1234.56".');
  const [, before, digits = "", after] = match;
  const named = [before, after].filter((code) => code !== undefined);
  if (named.length > 1 || named.some((code) => code.toUpperCase() !== currency))
    throw invalid(
      `the text names another currency than ${currency}. Key on the amount in the currency it is charged in.`,
    );
  return digits.trim();
}

// With both separators there is one reading; with a single one there may be two.
const ENGLISH = /^[+-]?\d{1,3}(?:,\d{3})+\.\d+$/;
const CONTINENTAL = /^[+-]?\d{1,3}(?:\.\d{3})+,\d+$/;

function plainDecimal(given: string): string {
  if (/^[+-]?\d+(?:\.\d+)?$/.test(given)) return given;
  if (ENGLISH.test(given)) return given.replaceAll(",", "");
  if (CONTINENTAL.test(given)) return given.replaceAll(".", "").replace(",", ".");
  throw invalid(
    'the text can be read in more than one way, or in none. Write it as "1234.56": digits, and a point before the decimals.',
  );
}

function split(decimal: string): Digits {
  const [, sign, whole = "", fraction = ""] = /^([+-]?)(\d+)(?:\.(\d+))?$/.exec(decimal) ?? [];
  return { negative: sign === "-", whole: stripped(whole), fraction };
}

function stripped(digits: string): string {
  return digits.replace(/^0+(?=\d)/, "");
}

function invalid(what: string): NevertwiceError {
  return new NevertwiceError("INVALID_KEY", `amount(): ${what}`);
}
