/** AWS Signature Version 4 for the few requests the ledger makes: header-based, the payload's digest included. */
import { createHash, createHmac } from "node:crypto";

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface Unsigned {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const ALGORITHM = "AWS4-HMAC-SHA256";
const SERVICE = "s3";

export function signed(
  { method, url, headers, body }: Unsigned,
  credentials: S3Credentials,
  region: string,
  at: Date,
): Record<string, string> {
  const moment = at.toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = moment.slice(0, 8);
  const payload = sha256(body);
  const all: Record<string, string> = {
    ...headers,
    host: url.host,
    "x-amz-content-sha256": payload,
    "x-amz-date": moment,
    ...(credentials.sessionToken !== undefined && { "x-amz-security-token": credentials.sessionToken }),
  };
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .sort();
  const lower = new Map(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value.trim()]));
  const canonical = [
    method,
    url.pathname,
    canonicalQuery(url),
    ...names.map((name) => `${name}:${lower.get(name)}`),
    "",
    names.join(";"),
    payload,
  ].join("\n");
  const scope = `${day}/${region}/${SERVICE}/aws4_request`;
  const text = [ALGORITHM, moment, scope, sha256(canonical)].join("\n");
  const key = [day, region, SERVICE, "aws4_request"].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `AWS4${credentials.secretAccessKey}`,
  );
  const signature = createHmac("sha256", key).update(text).digest("hex");
  const { host: _host, ...sent } = all;
  return {
    ...sent,
    authorization: `${ALGORITHM} Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`,
  };
}

/** As RFC 3986 has it: URLSearchParams writes a blank as "+", which S3 does not read as one. */
export function encodePart(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

function canonicalQuery(url: URL): string {
  return [...url.searchParams]
    .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`)
    .sort()
    .join("&");
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
