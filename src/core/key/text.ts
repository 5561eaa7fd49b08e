/** Text and addresses as key parts: forms that a person takes for the same thing become one part. */
import { NevertwiceError } from "../errors.ts";
import { labelled, normalised } from "./normal.ts";

export interface TextOptions {
  /** "keep": texts that differ in upper and lower case stay two parts. "ignore" unless given. */
  readonly case?: "ignore" | "keep";
}

/** Characters that take no room and that copying and models leave behind. Joiners are not among them: they change words. */
const INVISIBLE = /[\u200b\u2060\ufeff\u00ad]/g;
const LONGEST_ADDRESS = 320;

/**
 * A text as a part of a key: Unicode NFC, without white space around it, with single spaces inside, in lower case. For short
 * names and titles. What a model writes anew each time does not become one text by this.
 */
export function text(value: string, options?: TextOptions): string {
  const plain = textIn(value, "text()");
  const single = plain.normalize("NFC").replace(INVISIBLE, "").replace(/\s+/gu, " ").trim();
  if (single === "")
    throw invalid("text(): there is nothing but white space in it. Give a text, or leave the part out.");
  return normalised(value, keepsCase(options, "text()") ? single : lower(single));
}

/**
 * An e-mail address as a part of a key: without white space around it, in lower case, its domain in ASCII (IDN). What stands
 * before the @ is in lower case too: a standard allows mailboxes that differ in nothing else, and no large provider has them.
 * `{ case: "keep" }` keeps it. Sub-addresses (`ann+news@…`) and dots stay: they are other addresses.
 */
export function email(address: string, options?: TextOptions): string {
  const plain = textIn(address, "email()").normalize("NFC").replace(INVISIBLE, "").trim();
  const at = plain.lastIndexOf("@");
  const local = plain.slice(0, Math.max(at, 0));
  if (plain.length > LONGEST_ADDRESS || !isLocal(local)) {
    throw invalid(
      'email(): this is not one address. Give the address alone, such as "ann@example.com", without a name, brackets or a list.',
    );
  }
  const domain = asciiDomain(plain.slice(at + 1));
  if (domain === null) {
    throw invalid('email(): what follows the @ is not a domain. Give the address alone, such as "ann@example.com".');
  }
  return normalised(address, `${keepsCase(options, "email()") ? local : lower(local)}@${domain}`);
}

function isLocal(local: string): boolean {
  if (/^"[^"\r\n]+"$/.test(local)) return true;
  return local !== "" && !/[\s"<>()[\]:;,\\@\p{Cc}]/u.test(local);
}

/** URL has the rules for IDN. It also reads numbers as IPv4 addresses and decodes escapes: neither is let near it. */
function asciiDomain(given: string): string | null {
  const domain = given.endsWith(".") ? given.slice(0, -1) : given;
  if (!/^[\p{L}\p{M}\p{N}.。-]+$/u.test(domain)) return null;
  try {
    const { hostname } = new URL(`http://${domain}`);
    const labels = hostname.split(".");
    const valid = labels.every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(label));
    return valid && !/^\d+$/.test(labels.at(-1) as string) ? hostname : null;
  } catch {
    return null;
  }
}

/** Twice: the lower case of a composed character may be several that compose anew. */
function lower(value: string): string {
  return value.toLowerCase().normalize("NFC");
}

function keepsCase(options: TextOptions | undefined, where: string): boolean {
  const given = options?.case ?? "ignore";
  if (given === "ignore" || given === "keep") return given === "keep";
  throw invalid(`${where}: case takes "ignore" or "keep".`);
}

function textIn(value: unknown, where: string): string {
  if (typeof value === "string" && !/\p{Surrogate}/u.test(value)) return value;
  const what =
    value === null ? "null" : typeof value === "string" ? "a text with a lone surrogate" : `a ${typeof value}`;
  throw invalid(`${where}: it was given ${what}, not a text. Pass the field itself, or leave the part out.`);
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("INVALID_KEY", message);
}

labelled(text, "text");
labelled(email, "email");
