/** What a POST says beside its message, and what a POST to an authorization server may say. */
import type { IncomingHttpHeaders } from "node:http";
import { readJsonBytes } from "../../../core/strict-json.ts";
import type { RpcMessage } from "../rpc.ts";
import { FORM_TYPE } from "./door.ts";

/** null: the headers say what the body says, or nothing. */
export function headersDisagree(headers: IncomingHttpHeaders, message: RpcMessage | null): string | null {
  const [method, name] = [headers["mcp-method"], headers["mcp-name"]];
  if (method !== undefined && method !== message?.method) return "the header Mcp-Method differs from the body's method";
  if (name === undefined) return null;
  const { params } = message ?? {};
  const named = [params?.name, params?.uri, params?.taskId].filter((one) => typeof one === "string");
  return named.includes(plain(String(name))) ? null : "the header Mcp-Name differs from the body's name";
}

/** What does not fit into a header stands in it as =?base64?…?=. */
function plain(value: string): string {
  const [, coded] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  return coded === undefined ? value : Buffer.from(coded, "base64").toString("utf8");
}

// Of JSON-RPC: a client registration has none of these, nor has a request for a token.
const RPC_NAMES: ReadonlySet<string> = new Set(["jsonrpc", "method", "params"]);

const isRpcName = (name: string) => RPC_NAMES.has(name.normalize("NFKC").trim().toLowerCase());

/** A registration is a JSON object, a token is asked for by a form; neither may be a tool call to a lenient server. */
export function oauthProblem(body: Buffer, type: string): string | null {
  if (!FORM_TYPE.test(type)) {
    const reading = readJsonBytes(body);
    if (!reading.ok) return `the body cannot be read: ${reading.problem}`;
    const { value } = reading;
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject && !Object.keys(value).some(isRpcName) ? null : "the body is no client registration";
  }
  const text = body.toString("latin1");
  if (!/^[\w.~*+%&=!'(),:;@/$?-]*$/.test(text)) return "the body is not a form";
  const names = [...new URLSearchParams(text).keys()];
  return names.some(isRpcName) || /^\s*[[{]/.test(names[0] ?? "") ? "the body is no form of OAuth" : null;
}
